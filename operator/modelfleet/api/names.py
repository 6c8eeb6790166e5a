"""Every name and label that modelfleet writes into a cluster. Pure."""

from hashlib import sha256

GROUP = "modelfleet.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
DEPLOYMENT_KIND = "ModelDeployment"
DEPLOYMENT_PLURAL = "modeldeployments"
CLASS_KIND = "AcceleratorClass"
CLASS_PLURAL = "acceleratorclasses"
PROFILE_KIND = "ModelProfile"
PROFILE_PLURAL = "modelprofiles"

DEPLOYMENT_LABEL = f"{GROUP}/deployment"
REVISION_LABEL = f"{GROUP}/revision"
REPLICA_LABEL = f"{GROUP}/replica"
RANK_LABEL = f"{GROUP}/rank"
ROLE_LABEL = f"{GROUP}/role"
SERVING_LABEL = f"{GROUP}/serving"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "modelfleet"
SERVICE_NAME_LABEL = "kubernetes.io/service-name"  # of an EndpointSlice: whose Service it is
SLICE_MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"
ACTIVATOR = "modelfleet-activator"  # who keeps the endpoints of slices that point to activators; also its field manager
LEASE_LABEL = f"{GROUP}/lease"  # on the Leases of all installations, so that they find each other
LEADER_LEASE = "leader"
SERVES_ANNOTATION = f"{GROUP}/serves-namespaces"

PLACEMENT_ANNOTATION = f"{GROUP}/placement"  # on a pod that we pinned: why it has this node, for people
PLACED_GATE = f"{GROUP}/placed"  # a pod waits for its node until all of its replica can be placed

FIELD_MANAGER = "modelfleet"
STATUS_MANAGER = "modelfleet-status"

WORKER_CONTAINER = "worker"
FETCH_CONTAINER = "fetch"  # an init container, where weights come from a server
HTTP_PORT = 8000
STATUS_PORT = 8001
ACTIVATOR_PROBE_PATH = "/-/modelfleet/activator"  # answered by activators alone, on each model's port
CALLER_HEADER = "x-modelfleet-caller"  # a trusted caller's token; what it says in the two below is believed
SPENT_HEADER = "x-modelfleet-spent-ms"
AT_ZERO_HEADER = "x-modelfleet-at-zero"
GROUP_PORT = 8002  # of a group's leader: the other members' workers connect to it
MASTER_PORT = 29500  # of a group's leader: the engine's processes find each other there
SERVICE_PORT = 80

# What a member of a group is told by its pod.
RANK_VARIABLE = "MODELFLEET_RANK"
LEADER_VARIABLE = "MODELFLEET_LEADER"
GROUP_TOKEN_VARIABLE = "MODELFLEET_GROUP_TOKEN"
POD_IP_VARIABLE = "MODELFLEET_POD_IP"
NODE_VARIABLE = "MODELFLEET_NODE"

PLAN_KEY = "plan.json"
MODEL_KEY = "model.json"  # of NAME-state: what the model is made of
ADOPTION_KEY = "adoption.json"  # of NAME-state: which inputs a revision stands for besides its own
MEMORY_KEY = "memory.json"  # of NAME-state: what was lowered after deaths for lack of memory
ROLLOUT_KEY = "rollout.json"  # of NAME-state: the clock of a rollout, and which inputs failed to serve
GROUPS_KEY = "groups.json"  # of NAME-state: how often replicas ended as a whole, and which nodes are in doubt
SCALING_KEY = "scaling.json"  # of NAME-state: what decisions about replicas remember, and the last of them
ZERO_KEY = "zero.json"  # of NAME-state: how far a model is on the way to zero or back, and its activators' port
STARTS_KEY = "starts.json"  # of NAME-state: how long the last starts took, phase by phase
WARMTH_KEY = "warmth.json"  # of NAME-state: what the next start finds on which node
PLAN_MOUNT = "/etc/modelfleet"
PROMISE_KEY = "promise.json"
PROMISE_MOUNT = "/etc/modelfleet-promise"
MODELS_MOUNT = "/models"
ENGINE_MOUNT = "/opt/engine"
WEIGHTS_MOUNT = "/models/fetched"  # where fetched weights are kept
WEIGHTS_FOLDER = "modelfleet-weights"  # our folder on a claim that keeps them
NODE_MOUNT = "/models/node"  # a folder of the node, of file://
USE_MOUNT = "/models/use"  # marks of the pods that use them
COMPILED_MOUNT = "/models/compiled"  # code that engines compiled, kept for later starts
CREDENTIAL_PREFIX = "MODELFLEET_CREDENTIAL_"  # of the fetch container's variables, before the Secret's keys

_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
_NAME_LIMIT = 63  # a label's value, a Service's name and a pod's host name


def child(deployment: str, *parts: str) -> str:
    """The name of a child object: `deployment-part-part`, at most 63 characters, the same for the same input.

    A deployment name that leaves no room is cut and told apart by a digest of the whole name.
    """
    tail = "".join(f"-{part}" for part in parts)
    if len(deployment) + len(tail) <= _NAME_LIMIT:
        return deployment + tail
    digest = sha256(deployment.encode()).hexdigest()[:6]
    head = deployment[: _NAME_LIMIT - len(tail) - len(digest) - 1].rstrip("-")
    return f"{head}-{digest}{tail}"


def pod(deployment: str, revision: str, slot: int, rank: int = 0) -> str:
    """The name of the pod of replica `slot`, of a group the one of `rank`."""
    return child(deployment, revision, str(slot), *([str(rank)] if rank else []))


def device_class_resource(device_class: str) -> str:
    """The resource name that Kubernetes gives every DeviceClass, by which a pod requests its devices.

    https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource
    """
    return f"{_DEVICE_CLASS_PREFIX}{device_class}"


def device_class_of(resource: str) -> str:
    """The DeviceClass that a resource name stands for; empty for one that a device plugin offers."""
    return resource.removeprefix(_DEVICE_CLASS_PREFIX) if resource.startswith(_DEVICE_CLASS_PREFIX) else ""


def revision(deployment: str, revision_hash: str) -> str:
    """The name of the ControllerRevision, of the plan's ConfigMap, and of the Service by which a group's pods find each
    other."""
    return child(deployment, revision_hash)


def state(deployment: str) -> str:
    """The name of the ConfigMap with inputs to decisions; `state` is no revision's hash."""
    return child(deployment, "state")


def promise(deployment: str) -> str:
    """The name of the ConfigMap with what requests are judged by; `promise` is no revision's hash."""
    return child(deployment, "promise")


def activator_slice(deployment: str) -> str:
    """The name of the EndpointSlice that points the Service to activators; `activator` is no revision's hash."""
    return child(deployment, "activator")


def observed_profile(deployment: str, key: str) -> str:
    """The name of the ModelProfile that the operator writes; `key` tells what was measured."""
    return child(deployment, "observed", key)


def calibrated_profile(deployment: str, key: str) -> str:
    """The name of the ModelProfile that `modelfleet calibrate` writes; it is the user's."""
    return child(deployment, "calibrated", key)


def inspect_job(deployment: str, source: str, image: str) -> str:
    """The name of the Job that reads the facts of the model at `source` with a worker `image`."""
    return child(deployment, "inspect", sha256(f"{source}\n{image}".encode()).hexdigest()[:8])
