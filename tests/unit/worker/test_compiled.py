"""Compiled code that is kept for later starts: what its name stands for, and who may write, read and break it."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from modelfleet_worker import compiled_store
from modelfleet_worker.compiled import store_key
from modelfleet_worker.compiled_store import Found, Shelf
from modelfleet_worker.fetch.kept import kept
from modelfleet_worker.fetch.remote import FetchError
from modelfleet_worker.fetch.store import Store
from modelfleet_worker.plan import Compiled

KEY = "k" * 32


def shelf(root: Path, key: str = KEY, pod: str = "pod-0", size_bytes: int = 10**9, max_age_s: float = 0.0) -> Shelf:
    return Shelf(Compiled(key="plan", root=root, size_bytes=size_bytes, max_age_s=max_age_s), key, pod)


def compiled(scratch: Path, **files: str) -> Path:
    """An engine's caches, as they are after a start."""
    for name, text in {"graph.so": "machine code", **files}.items():
        path = scratch / "inductor" / "ab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return scratch


def entry(root: Path, key: str = KEY) -> Path:
    return root / "models" / key


def test_what_one_start_compiled_the_next_one_takes(tmp_path: Path) -> None:
    scratch = compiled(tmp_path / "first")
    (scratch / "inductor/ab/run.sh").write_text("#!")
    (scratch / "inductor/ab/run.sh").chmod(0o755)
    (scratch / "vllm/startup_plan").mkdir(parents=True)
    (scratch / "vllm/startup_plan/free.json").write_text("of this start alone")

    assert shelf(tmp_path / "kept").put(scratch) == len("machine code") + len("#!")
    assert shelf(tmp_path / "kept", pod="pod-1").take(tmp_path / "new") is Found.TAKEN
    taken = sorted(path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*.*"))
    assert taken == ["inductor/ab/graph.so", "inductor/ab/run.sh"]
    assert os.access(tmp_path / "new/inductor/ab/run.sh", os.X_OK)


def test_a_first_start_finds_nothing_and_an_engine_that_compiled_nothing_keeps_nothing(tmp_path: Path) -> None:
    assert shelf(tmp_path / "kept").take(tmp_path / "new") is Found.NOTHING
    assert shelf(tmp_path / "kept").put(tmp_path / "empty") == 0


def _flip(kept: Path) -> None:
    (kept / "inductor/ab/graph.so").write_text("machine cod!")


def _cut(kept: Path) -> None:
    (kept / "inductor/ab/graph.so").write_text("m")


def _unlist(kept: Path) -> None:
    (kept / ".modelfleet.json").unlink()


def _climb(kept: Path) -> None:
    (kept.parent / "outside").write_text("x")
    manifest = {"bytes": 1, "files": [{"path": "inductor/../../outside", "size": 1, "sha256": ""}]}
    (kept / ".modelfleet.json").write_text(json.dumps(manifest))


def _link(kept: Path) -> None:
    (kept / "inductor/ab/graph.so").rename(kept / "inductor/ab/other")
    (kept / "inductor/ab/graph.so").symlink_to("other")


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        pytest.param(_flip, "graph.so is not what was kept", id="a byte that changed"),
        pytest.param(_cut, "does not fit them", id="a file that was cut"),
        pytest.param(_unlist, "cannot be read", id="a list of files that is gone"),
        pytest.param(_climb, "which is no file of an engine's caches", id="a name that climbs out"),
        pytest.param(_link, "is no plain file", id="a link in place of a file"),
    ],
)
def test_damaged_code_is_thrown_away_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, breaks: Callable[[Path], None], said: str
) -> None:
    here = shelf(tmp_path / "kept")
    here.put(compiled(tmp_path / "first"))
    breaks(entry(tmp_path / "kept"))

    assert here.take(tmp_path / "new") is Found.DAMAGED
    assert said in caplog.text
    assert not (tmp_path / "new").exists()
    assert here.take(tmp_path / "new") is Found.NOTHING
    assert here.put(compiled(tmp_path / "first")) > 0


def test_of_two_writers_one_keeps_and_the_other_leaves_it(tmp_path: Path) -> None:
    first, second = compiled(tmp_path / "first"), compiled(tmp_path / "second", more="x")

    assert shelf(tmp_path / "kept").put(first) > 0
    written = (entry(tmp_path / "kept") / ".modelfleet.json").stat().st_mtime_ns
    assert shelf(tmp_path / "kept", pod="pod-1").put(second) == 0
    assert (entry(tmp_path / "kept") / ".modelfleet.json").stat().st_mtime_ns == written


def test_while_one_writes_a_second_writer_and_a_reader_go_their_own_way(tmp_path: Path) -> None:
    here = shelf(tmp_path / "kept")
    store = Store(tmp_path / "kept")
    store.prepare()
    with store.locked(KEY):
        assert here.put(compiled(tmp_path / "first")) == 0
        assert here.take(tmp_path / "new") is Found.NOTHING


def _put_slowly(root: Path, scratch: Path) -> None:
    copy = compiled_store._copy

    def slow(source: Path, target: Path) -> str:
        digest = copy(source, target)
        time.sleep(3600)
        return digest

    compiled_store._copy = slow
    shelf(root).put(scratch)


def test_a_writer_that_is_killed_half_way_leaves_nothing_that_a_reader_takes(tmp_path: Path) -> None:
    root, scratch = tmp_path / "kept", compiled(tmp_path / "first", second="x")
    writer = multiprocessing.get_context("fork").Process(target=_put_slowly, args=(root, scratch))
    writer.start()
    while not list((root / "partial").rglob("graph.so")):
        time.sleep(0.01)
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()

    assert shelf(root).take(tmp_path / "new") is Found.NOTHING
    assert shelf(root).put(scratch) == len("machine code") + 1
    assert shelf(root).take(tmp_path / "new") is Found.TAKEN
    assert not (root / "partial" / KEY).exists()


def test_what_was_used_longest_ago_makes_room_and_what_a_pod_just_took_does_not(tmp_path: Path) -> None:
    root = tmp_path / "kept"
    for age, key in enumerate(("old", "older"), start=1):
        shelf(root, key).put(compiled(tmp_path / "first"))
        long_ago = time.time() - age * 100_000
        for path in (root / "use" / key).iterdir():
            os.utime(path, (long_ago, long_ago))
        os.utime(entry(root, key), (long_ago, long_ago))
    shelf(root, "fresh").put(compiled(tmp_path / "first"))

    one_needs = sum(path.stat().st_size for path in entry(root, "old").rglob("*") if path.is_file())
    shelf(root, "new", size_bytes=3 * one_needs).put(compiled(tmp_path / "first"))
    assert sorted(each.name for each in (root / "models").iterdir()) == ["fresh", "new", "old"]
    with pytest.raises(FetchError):
        shelf(root, "large", size_bytes=one_needs).put(compiled(tmp_path / "large", big="x" * 1000))


def test_what_no_start_took_for_too_long_goes_by_its_age(tmp_path: Path) -> None:
    root = tmp_path / "kept"
    shelf(root, "old").put(compiled(tmp_path / "first"))
    for path in (*(root / "use/old").iterdir(), entry(root, "old")):
        os.utime(path, (time.time() - 7200,) * 2)

    shelf(root, "new", max_age_s=3600).put(compiled(tmp_path / "first"))
    assert [each.name for each in (root / "models").iterdir()] == ["new"]


def test_a_fetch_tells_the_operator_which_models_and_which_plans_code_are_kept(tmp_path: Path) -> None:
    assert kept(tmp_path) == '{"weights":[],"compiled":[]}'
    for age, key in enumerate(("newest", "older")):
        (tmp_path / "models" / key).mkdir(parents=True)
        os.utime(tmp_path / "models" / key, (time.time() - age,) * 2)
    shelf(tmp_path / "compiled").put(compiled(tmp_path / "first"))
    (tmp_path / "compiled/models/odd").mkdir()
    assert json.loads(kept(tmp_path)) == {"weights": ["newest", "older"], "compiled": ["plan"]}
    for index in range(200):
        (tmp_path / "models" / f"{index:032}").mkdir()
        (tmp_path / "compiled/models" / f"{index:032}").mkdir()
        (tmp_path / "compiled/models" / f"{index:032}/.modelfleet.json").write_text(json.dumps({"planKey": "p" * 64}))
    assert len(kept(tmp_path)) <= 4096


def _engine(folder: Path) -> Path:
    packages = folder / "lib/python3.11/site-packages"
    for name in ("vllm-0.32.0", "torch-2.13.0", "numpy-2.3.0"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
        (packages / f"{name}.dist-info/RECORD").write_text(f"{name}.py,sha256=abc,10")
    proc = folder / "proc"
    (proc / "driver/nvidia/gpus/0000:01:00.0").mkdir(parents=True)
    (proc / "driver/nvidia/gpus/0000:01:00.0/information").write_text("Model: \t H100\nIRQ: 77\n")
    (proc / "driver/nvidia/version").write_text("NVRM version: 575.1")
    (proc / "cpuinfo").write_text("model name\t: A\nflags\t\t: avx2\ncpu MHz\t: 2100.1\n\nmodel name\t: A\n")
    return packages


@pytest.mark.parametrize(
    ("path", "text", "same"),
    [
        pytest.param("vllm-0.32.0.dist-info/RECORD", "vllm-0.32.0.py,sha256=abd,10", False, id="a patched engine"),
        pytest.param("torch-2.13.0.dist-info/RECORD", "", False, id="another build of torch"),
        pytest.param("numpy-2.4.0.dist-info/RECORD", "", False, id="another package"),
        pytest.param("../../../proc/driver/nvidia/version", "NVRM version: 580", False, id="another driver"),
        pytest.param("../../../proc/cpuinfo", "model name\t: A\nflags\t: avx512\n", False, id="another processor"),
        pytest.param(
            "../../../proc/driver/nvidia/gpus/0000:01:00.0/information",
            "Model: B200\n",
            False,
            id="another accelerator",
        ),
        pytest.param(
            "../../../proc/cpuinfo", "model name\t: A\nflags\t\t: avx2\ncpu MHz\t: 999\n", True, id="another clock rate"
        ),
        pytest.param(
            "../../../proc/driver/nvidia/gpus/0000:02:00.0/information",
            "Model: \t H100\n",
            True,
            id="one more of a kind",
        ),
    ],
)
def test_the_name_of_compiled_code_changes_with_what_it_depends_on(
    tmp_path: Path, path: str, text: str, same: bool
) -> None:
    packages, python = _engine(tmp_path), str(tmp_path / "bin/python")
    before = store_key("plan", python, tmp_path / "proc")
    changed = packages / path
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text(text)

    assert (store_key("plan", python, tmp_path / "proc") == before) is same
    assert store_key("another model", python, tmp_path / "proc") != before
