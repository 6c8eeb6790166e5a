"""Names of Services inside pods: CoreDNS as a process beside the control plane, behind the usual kube-dns Service."""

from modelfleet_local import netns
from modelfleet_local.api import Api
from modelfleet_local.controlplane import Environment
from modelfleet_local.pki import Identity
from modelfleet_local.processes import Program

CLUSTER_DNS = "10.96.0.10"
DOMAIN = "cluster.local"
_USER = "modelfleet-coredns"
_PORT = 53
_RULES = [
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]
# Two blocks, because CoreDNS would ask `template` before `kubernetes` within one. Nothing outside can be reached, so
# every other name is said not to exist: a pod hears that at once instead of waiting for nobody.
_COREFILE = """{domain}:53 in-addr.arpa:53 ip6.arpa:53 {{
    bind {address}
    errors
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
}}
.:53 {{
    bind {address}
    errors
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""


def start(env: Environment, api: Api) -> None:
    """Starts CoreDNS and makes the Service that pods ask."""
    api.grant(_USER, _RULES)
    corefile = env.paths.state / "Corefile"
    kubeconfig = env.kubeconfig("coredns", Identity(_USER))
    corefile.write_text(_COREFILE.format(domain=DOMAIN, address=netns.GATEWAY, kubeconfig=kubeconfig))
    env.processes.start(Program("coredns", [env.program("coredns"), f"-conf={corefile}"]))
    ports = [{"name": f"dns-{kind.lower()}", "protocol": kind, "port": _PORT} for kind in ("UDP", "TCP")]
    service = {
        "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns"}},
        "spec": {"clusterIP": CLUSTER_DNS, "ports": ports},
    }
    api.create("/api/v1/namespaces/kube-system/services", service)
    endpoints = {
        "metadata": {"name": "kube-dns-local", "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": [netns.GATEWAY], "conditions": {"ready": True}}],
    }
    api.create("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", endpoints)
