"""What the stories of groups do to members, and what a client saw meanwhile."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from site_under_test import Site

from modelfleet.api import names

_CLIENT = Path(__file__).with_name("group_client.py")
TOKENS = 48


def answer(site: Site, name: str, tokens: int = TOKENS) -> str:
    """A whole greedy answer through the Service."""
    done = subprocess.run(_argv(site, name, "", tokens), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text: str = json.loads(done.stdout)
    return text


@dataclass
class Seen:
    """What one client saw, in its order."""

    answers: list[dict[str, Any]] = field(default_factory=list)

    def count(self, kind: str) -> int:
        return sum(one["is"] == kind for one in self.answers)

    def first(self, kind: str, after_s: float, key: str = "at") -> float | None:
        """Seconds from `after_s` to the first answer of this kind that ended (or began) later."""
        return next((one["at"] - after_s for one in self.answers if one["is"] == kind and one[key] > after_s), None)


@contextmanager
def client(site: Site, name: str, expected: str) -> Iterator[Seen]:
    """One streaming client on the Service inside the block; afterwards what it saw is there."""
    argv = _argv(site, name, expected)
    seen = Seen()
    running = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield seen
    finally:
        out, _ = running.communicate(timeout=180)
        seen.answers += [json.loads(line) for line in out.splitlines()]


def members(site: Site, name: str) -> list[dict[str, Any]]:
    """The pods of a group by rank."""
    return sorted(site.pods(name), key=lambda pod: int(pod["metadata"]["labels"][names.RANK_LABEL]))


def processes(pod: dict[str, Any]) -> dict[int, str]:
    """The pids of a pod's processes on this machine, with their command lines."""
    uid = pod["metadata"]["uid"]
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            group = (entry / "cgroup").read_text()
            command = (entry / "cmdline").read_text().replace("\0", " ").strip()
        except OSError:
            continue  # it ended meanwhile
        if (uid in group or uid.replace("-", "_") in group) and command:
            found[int(entry.name)] = command
    return found


def send(pod: dict[str, Any], title: str, number: signal.Signals) -> float:
    """Sends a signal to every process of a pod whose command line has `title`; when."""
    pids = [pid for pid, command in processes(pod).items() if title in command]
    assert pids, f"{pod['metadata']['name']} has no process {title}: {processes(pod)}"
    at_s = time.time()
    kill(pids, number)
    return at_s


def kill(pids: list[int], number: signal.Signals) -> None:
    """Sends a signal to processes; the end of a container's first one may end the others before."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def failure(pod: dict[str, Any]) -> str:
    """What a member's last container said about its end."""
    (status,) = pod["status"].get("containerStatuses") or ({},)  # none before it has a node
    ended = status.get("lastState", {}).get("terminated") or status.get("state", {}).get("terminated") or {}
    try:
        note = json.loads(ended.get("message", ""))
    except ValueError:
        return ""
    return f"{note['reason']}: {note['message']}"


def _argv(site: Site, name: str, expected: str, tokens: int = TOKENS) -> list[str]:
    url = f"http://{site.address(name)}/v1/chat/completions"
    return site.cluster.client_argv(_CLIENT, url, name, str(tokens), expected)
