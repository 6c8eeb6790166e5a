"""What a cluster may not change about the machine, read from the machine."""

import os
from pathlib import Path

_KERNEL_SETTINGS = (
    "net/ipv4/ip_forward",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)


def seen_by_the_host() -> dict[str, object]:
    """Mounts and network links of the host, and the kernel settings that a kubelet likes to change.

    Left out are the handles of network namespaces: they are the one mount that a cluster makes on the host.
    """
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    settings = {name: (Path("/proc/sys") / name).read_text().strip() for name in _KERNEL_SETTINGS}
    return {
        "mounts": sorted(mount for mount in mounts if not mount.startswith("/run/netns/modelfleet-")),
        "links": sorted(os.listdir("/sys/class/net")),
        "settings": settings,
    }
