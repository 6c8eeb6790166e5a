"""Services' cluster addresses: one kube-proxy, in nftables mode, in the cluster's own network namespace."""

import json
from pathlib import Path

from modelfleet_local import netns
from modelfleet_local.controlplane import Environment
from modelfleet_local.pki import Identity
from modelfleet_local.processes import Program
from modelfleet_local.system import run_tool

# On one bridge an answer would go from pod to pod behind the proxy's back, unless bridged packets pass its rules too.
_BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


def start(env: Environment, node: str) -> None:
    """Starts kube-proxy as the one of `node`; it serves every real node, since they share the network."""
    bridged = _BRIDGE_FILTER.exists()
    if bridged:
        switch = ["sh", "-c", f"echo 1 > {_BRIDGE_FILTER}"]  # a setting of this network namespace only
        run_tool(netns.entered(env.paths.netns, switch))
    config = env.paths.state / "kube-proxy.yaml"
    content = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": node,
        "clusterCIDR": netns.POD_CIDR,
        "clientConnection": {"kubeconfig": str(env.kubeconfig("kube-proxy", Identity("system:kube-proxy")))},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "nftables": {"masqueradeAll": not bridged},
        # The limits of the connection table are the whole machine's; they stay as they are.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    config.write_text(json.dumps(content, indent=1))
    env.processes.start(Program("kube-proxy", [env.program("kube-proxy"), f"--config={config}"]))
