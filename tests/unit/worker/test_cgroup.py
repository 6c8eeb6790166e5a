"""What cgroups and /proc say, as files in the kernel's spelling: v1, v2, nested, and without a controller."""

from pathlib import Path

import pytest

from modelfleet_worker.cgroup import Held, Host

MIB = 1 << 20
V2_STAT = "anon 104857600\nfile 52428800\nkernel 1048576\nshmem 10485760\ninactive_file 20971520\n"
V1_STAT = "cache 0\nrss 0\ntotal_cache 52428800\ntotal_rss 104857600\ntotal_shmem 10485760\n"


def put(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def v2(root: Path, folder: str = "sys/fs/cgroup", limit: str = "max", path: str = "/") -> Host:
    files = {
        "memory.current": "167772160\n",
        "memory.stat": V2_STAT,
        "memory.max": f"{limit}\n",
        "memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 0\n",
        "cgroup.procs": "7\n8\n",
    }
    put(root, **{f"{folder}/{name}": text for name, text in files.items()})
    put(root, **{"proc/self/cgroup": f"0::{path}\n"})
    return Host(root)


def v1(root: Path, folder: str, limit: int, path: str) -> Host:
    files = {
        "memory.usage_in_bytes": "167772160\n",
        "memory.stat": V1_STAT,
        "memory.limit_in_bytes": f"{limit}\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "cgroup.procs": "7\n",
    }
    put(root, **{f"{folder}/{name}": text for name, text in files.items()})
    put(root, **{"proc/self/cgroup": f"4:memory:{path}\n1:cpu,cpuacct:/\n0::/\n"})
    return Host(root)


def test_a_container_of_v2_is_its_own_root(tmp_path):
    memory = v2(tmp_path, limit=str(512 * MIB)).memory()
    assert memory is not None
    assert (memory.version, memory.limit_bytes, memory.oom_kills) == (2, 512 * MIB, 3)
    assert (memory.used_bytes, memory.anonymous_bytes) == (160 * MIB, 100 * MIB)
    assert (memory.cache_bytes, memory.shared_bytes) == (40 * MIB, 10 * MIB)


def test_no_limit_of_v2_is_none(tmp_path):
    memory = v2(tmp_path).memory()
    assert memory is not None
    assert memory.limit_bytes is None


def test_a_limit_above_ours_counts(tmp_path):
    put(tmp_path, **{"sys/fs/cgroup/kubepods/memory.max": "1048576\n"})
    memory = v2(tmp_path, "sys/fs/cgroup/kubepods/pod", str(5 * MIB), "/kubepods/pod").memory()
    assert memory is not None
    assert memory.limit_bytes == MIB


def test_v1_below_the_mount_and_in_a_container_where_the_path_is_the_node_s(tmp_path):
    below = v1(tmp_path / "a", "sys/fs/cgroup/memory/kubepods/pod", 512 * MIB, "/kubepods/pod").memory()
    inside = v1(tmp_path / "b", "sys/fs/cgroup/memory", 9223372036854771712, "/kubepods/pod").memory()
    assert below is not None
    assert inside is not None
    assert (below.version, below.limit_bytes, below.oom_kills) == (1, 512 * MIB, 3)
    assert (inside.limit_bytes, inside.anonymous_bytes, inside.cache_bytes) == (None, 100 * MIB, 40 * MIB)


def test_a_machine_without_a_memory_controller_says_nothing(tmp_path):
    put(tmp_path, **{"proc/self/cgroup": "0::/\n"})
    host = Host(tmp_path)
    assert (host.memory(), host.members(), host.node()) == (None, [], None)
    assert Host(tmp_path / "nothing").memory() is None


@pytest.mark.parametrize("file", ["memory.stat", "memory.current", "memory.events"])
def test_a_file_that_cannot_be_read_is_no_figure(tmp_path, file):
    host = v2(tmp_path)
    put(tmp_path, **{f"sys/fs/cgroup/{file}": "what is this\n"})
    if file == "memory.events":
        memory = host.memory()
        assert memory is not None
        assert memory.oom_kills == 0
    else:
        assert host.memory() is None


def test_processes_and_what_they_hold(tmp_path):
    host = v2(tmp_path)
    put(tmp_path, **{"proc/7/status": "Name:\tVLLM::Worker\nVmRSS:\t  300 kB\nRssAnon:\t  200 kB\nRssFile:\t  90 kB\n"})
    put(tmp_path, **{"proc/8/status": "Name:\tkthreadd\nState:\tS (sleeping)\n"})
    assert host.members() == [7, 8]
    assert host.held([7, 8, 9]) == [Held(pid=7, name="VLLM::Worker", anonymous_bytes=200 * 1024)]


def test_this_machine_s_own_memory_is_read():
    node = Host().node()
    assert node is not None
    assert 0 < node.available_bytes < node.total_bytes
