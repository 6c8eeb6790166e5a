"""The kinds of objects that the operator reads or writes, as the REST API names them. Pure."""

from dataclasses import dataclass
from urllib.parse import quote

from modelfleet.api import names


@dataclass(frozen=True)
class Resource:
    """A kind as the REST API names it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL's path; without a namespace, of all namespaces."""
        root = "/api/" if "/" not in self.api_version else "/apis/"
        parts = [root + self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts += [part for part in (self.plural, name and quote(name, safe=""), subresource) if part]
        return "/".join(parts)


DEPLOYMENTS = Resource(names.API_VERSION, names.DEPLOYMENT_KIND, names.DEPLOYMENT_PLURAL)
CLASSES = Resource(names.API_VERSION, names.CLASS_KIND, names.CLASS_PLURAL, namespaced=False)
PROFILES = Resource(names.API_VERSION, names.PROFILE_KIND, names.PROFILE_PLURAL)
NODES = Resource("v1", "Node", "nodes", namespaced=False)
PODS = Resource("v1", "Pod", "pods")
SERVICES = Resource("v1", "Service", "services")
CONFIG_MAPS = Resource("v1", "ConfigMap", "configmaps")
REVISIONS = Resource("apps/v1", "ControllerRevision", "controllerrevisions")
JOBS = Resource("batch/v1", "Job", "jobs")
BUDGETS = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
POLICIES = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
SLICES = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
QUOTAS = Resource("v1", "ResourceQuota", "resourcequotas")
EVENTS = Resource("events.k8s.io/v1", "Event", "events")
DEVICE_CLASSES = Resource("resource.k8s.io/v1", "DeviceClass", "deviceclasses", namespaced=False)
DEVICE_SLICES = Resource("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False)
DEVICE_CLAIMS = Resource("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases")
CRDS = Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)

CHILDREN = (PODS, SERVICES, CONFIG_MAPS, REVISIONS, JOBS, BUDGETS, POLICIES)
_KINDS = (DEPLOYMENTS, CLASSES, PROFILES, NODES, *CHILDREN, SLICES, EVENTS, LEASES, CRDS)
_RESOURCES = {(r.api_version, r.kind): r for r in _KINDS}


def resource_of(api_version: str, kind: str) -> Resource:
    """The resource of a manifest's kind. KeyError: a kind that the operator has no business with."""
    return _RESOURCES[api_version, kind]
