"""Which pod this worker is, as the kernel and the pod's own host name tell: nothing is rendered into the pod for it."""

import re
import socket
from dataclasses import dataclass
from pathlib import Path

_MOUNTINFO = Path("/proc/self/mountinfo")
_POD_FOLDER = re.compile(
    r"/pods/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/(?:etc-hosts|containers|volumes)\b"
)


@dataclass(frozen=True)
class Identity:
    """The pod's name, and its uid; "" where the container's runtime shows none (a sandbox with a kernel of its own)."""

    pod: str
    uid: str


def identity(mountinfo: Path = _MOUNTINFO) -> Identity:
    """This pod. The kubelet mounts files of the pod's own folder, whose name is the uid, into each container (the hosts
    file, the termination log, volumes): the fourth column of mountinfo shows where they come from."""
    try:
        lines = mountinfo.read_text().splitlines()
    except OSError:
        lines = []
    roots = (columns[3] for line in lines if len(columns := line.split()) > 4)
    found = {match[1] for root in roots if (match := _POD_FOLDER.search(root))}
    # Two different ones: this is no container, but a machine that runs some.
    return Identity(socket.gethostname(), found.pop() if len(found) == 1 else "")
