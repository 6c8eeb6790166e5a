"""`modelfleet calibrate` at its edges: what it refuses, whom it leaves alone, and what it writes through kubectl.

The replica is a small server of the test's own that answers at once, so that nothing here depends on time.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from modelfleet.api import names
from modelfleet.api.parse import parse_deployment, parse_profile
from modelfleet.cli.main import main
from modelfleet.cli.open_loop import draw, prefix_of
from modelfleet.cli.worker_page import PageUnreadError, parsed
from modelfleet.core.promise import promise
from modelfleet_worker.engine_counts import Cell
from modelfleet_worker.promise import parse_promise
from planner_worlds import gpu_class, objective, planned, settled
from worker_pages import Numbers, WorkerPage

LENGTHS = {"inputTokens": {"p50": 8, "p95": 16}, "outputTokens": {"p50": 2, "p95": 3}, "sharedPrefixTokens": 4}
FAST = ("--step=0.1", "--limit=0.2", "--watch=0.01")


def deployment(**spec: Any) -> dict[str, Any]:
    asked = objective(ttft="30s", tpot="5s", load={"requestsPerSecond": 800}, lengths=LENGTHS)
    found = planned(objectives=asked, **spec)
    found["spec"]["scaling"] |= {"maxReplicas": 64, "mode": "Advisory"}
    return found


class Fake:
    """A worker that answers each request with two tokens at once. `others` requests come with each of ours, and its
    engine took `per_request` steps for each."""

    def __init__(self, others: int = 0, in_flight: int = 0, status: int = 200) -> None:
        self.others, self.in_flight, self.status = others, in_flight, status
        self.bodies: list[Any] = []
        self._promise = parse_promise(json.dumps(promise(parse_deployment(deployment()))))  # type: ignore[arg-type]

    async def completions(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        if self.status != 200:
            return web.Response(status=self.status, text="no model of that name")
        answer = web.StreamResponse()
        await answer.prepare(request)
        for event in ({"choices": [{"text": "a"}]}, {"choices": [{"text": "b"}]},
                      {"choices": [], "usage": {"completion_tokens": 2}}):  # fmt: skip
            await answer.write(f"data: {json.dumps(event)}\n\n".encode())
        await answer.write(b"data: [DONE]\n\n")
        return answer

    async def metrics(self, _: web.Request) -> web.Response:
        count = len(self.bodies)
        numbers = Numbers(
            arrivals=count + self.others * count, in_flight=self.in_flight, ended={"met": count}, ttft_s=[0.01] * count
        )
        page = WorkerPage(promise=self._promise, numbers={"interactive": numbers}, kv_total_tokens=400_000)
        cells = {(1, 0): Cell(20 * count, 0.2 * count, 20 * count, 0)} if count else {}
        return web.Response(text=replace(page, cells=cells).text)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[int]:
        app = web.Application()
        app.router.add_post("/v1/completions", self.completions)
        app.router.add_get("/metrics", self.metrics)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [deployment(), gpu_class()]}))
    return str(path)


async def run(fake: Fake, *argv: str) -> int:
    async with fake.served() as port:
        return await asyncio.to_thread(main, ["calibrate", *argv, f"--url=http://127.0.0.1:{port}", *FAST])


async def test_a_run_prints_rates_steps_and_the_profile_that_it_would_write(file, capsys):
    fake = Fake()
    assert await run(fake, "-f", file) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Nothing is written; ModelProfile chat-calibrated-" in out
    assert "none broke, so the knee is not known" in out
    assert "kvCacheTokens: 400000" in out
    first, *rest = fake.bodies  # of the declared lengths, with the common prefix and else their own
    assert all(body["prompt"][:4] == first["prompt"][:4] for body in rest if len(body["prompt"]) > 4)
    assert len({tuple(body["prompt"]) for body in fake.bodies}) > len(fake.bodies) / 2
    assert all(1 <= body["max_tokens"] == body["min_tokens"] for body in fake.bodies)


@pytest.mark.parametrize(
    ("fake", "said", "sent"),
    [
        pytest.param(Fake(in_flight=3), "the replica serves others: 0 requests came", 0, id="one that is busy"),
        pytest.param(Fake(others=1), "requests of others came to the replica meanwhile", None, id="others that come"),
    ],
)
async def test_a_replica_that_serves_others_is_left_alone(file, capsys, fake, said, sent):
    assert await run(fake, "-f", file) == 1
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert sent is None or len(fake.bodies) == sent


async def test_by_force_it_goes_on_beside_others_and_yaml_is_an_object_to_apply(file, capsys):
    assert await run(Fake(others=1, in_flight=3), "-f", file, "--force", "-o", "yaml") == 0
    assert not isinstance(parse_profile(yaml.safe_load(capsys.readouterr().out)), tuple)


async def test_a_replica_that_answers_nothing_is_told_with_its_words(file, capsys):
    assert await run(Fake(status=404), "-f", file) == 2
    assert "does not answer: status 404: no model of that name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        pytest.param([], "give the name of a ModelDeployment, or a file", id="nothing"),
        pytest.param(["chat", "-f", "x"], "give the name of a ModelDeployment, or a file", id="both"),
        pytest.param(["-f", "FILE"], "--url: is missing", id="a file without an address"),
        pytest.param(["chat", "--metrics-url", "http://x"], "--metrics-url: goes with --url", id="half an address"),
        pytest.param(["chat", "--step", "0"], "--step: 0 must be from 0.1", id="no time"),
        pytest.param(["-f", "FILE", "--url", "http://127.0.0.1:1"], "cannot be read", id="an address without anybody"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(argv, said, file, capsys):
    assert main(["calibrate", *(file if each == "FILE" else each for each in argv)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kubectl on the PATH that knows a fleet, forwards to a port of this machine, and notes what is applied."""

    def put(port: int, **scaling: Any) -> Path:
        fleet = settled(deployment(), classes={"h100": gpu_class()})
        fleet.deployment["spec"]["scaling"] |= scaling
        fleet.deployment["status"]["readyReplicas"] = 1
        revisions = [item for (kind, _), item in fleet.objects.items() if kind == "ControllerRevision"]
        pod = {
            "metadata": {"name": "chat-1a2b-0", "ownerReferences": revisions[0]["metadata"]["ownerReferences"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        answers = {
            f"{names.DEPLOYMENT_PLURAL}.{names.GROUP}": fleet.deployment,
            f"{names.CLASS_PLURAL}.{names.GROUP}": gpu_class(),
            "controllerrevisions.apps": {"items": revisions},
            "pods": {"items": [pod]},
        }
        (tmp_path / "answers.json").write_text(json.dumps(answers, default=str))
        applied = tmp_path / "applied.json"
        script = f"""#!{sys.executable}
import json, sys, time
if sys.argv[1] == "apply":
    open({str(applied)!r}, "w").write(sys.stdin.read())
elif sys.argv[1] == "port-forward":
    print("Forwarding from 127.0.0.1:{port} -> 8000", flush=True)
    print("Forwarding from 127.0.0.1:{port} -> 8001", flush=True)
    time.sleep(600)
else:
    print(json.dumps(json.load(open({str(tmp_path / "answers.json")!r}))[sys.argv[2]]))
"""
        (tmp_path / "kubectl").write_text(script)
        (tmp_path / "kubectl").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return applied

    return put


async def test_a_live_replica_is_measured_through_kubectl_and_the_profile_is_applied(kubectl, capsys):
    async with Fake().served() as port:
        applied = kubectl(port)
        assert await asyncio.to_thread(main, ["calibrate", "chat", *FAST]) == 0, capsys.readouterr().err
    found = json.loads(applied.read_text())
    assert (found["kind"], found["spec"]["class"]) == (names.PROFILE_KIND, "h100")
    assert found["metadata"]["name"].startswith("chat-calibrated-")
    assert "ownerReferences" not in found["metadata"]
    assert "is written" in capsys.readouterr().out


async def test_a_fleet_that_would_buy_replicas_for_it_is_not_driven(kubectl, capsys):
    fake = Fake()
    async with fake.served() as port:
        kubectl(port, mode="Active")
        assert await asyncio.to_thread(main, ["calibrate", "chat", *FAST]) == 2
    assert "would buy replicas" in capsys.readouterr().err
    assert fake.bodies == []


def test_the_same_seed_draws_the_same_requests():
    of: Any = parse_deployment(deployment())
    assert draw(of, 50.0, 2.0, 3) == draw(of, 50.0, 2.0, 3) != draw(of, 50.0, 2.0, 4)
    assert len(prefix_of(of, 1)) == 4
    assert len(draw(of, 0.001, 0.1, 1)) == 1  # a step without a request would say that its rate is not kept


@pytest.mark.parametrize("text", ["", "hello", "vllm:running 3\n", "modelfleet_engine_running x\n"])
def test_a_page_that_is_none_of_a_worker_is_told(text):
    with pytest.raises(PageUnreadError):
        parsed(text)
