"""What the operator tells about itself: probes, metrics, logs."""

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterable

import aiohttp
import pytest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from modelfleet.activator.meter import Meter
from modelfleet.controller.telemetry import Health, LoopLag, Metrics, configure_logs, serve


async def test_probes_say_why_not_and_metrics_are_prometheus_text():
    metrics, health = Metrics(), Health(ready=[lambda: None, lambda: "not yet"])
    metrics.reconciled("settled", 0.1)
    metrics.gauge("answer", "text", lambda: 42)
    runner, port = await serve(metrics, health, "127.0.0.1", 0)
    got = {}
    async with aiohttp.ClientSession() as session:
        for path in ("healthz", "readyz", "metrics"):
            async with session.get(f"http://127.0.0.1:{port}/{path}") as response:
                got[path] = (response.status, await response.text())
    await runner.cleanup()
    assert (got["healthz"], got["readyz"]) == ((200, "ok"), (503, "not yet"))
    assert "modelfleet_operator_answer 42.0" in got["metrics"][1]
    assert 'modelfleet_operator_reconcile_seconds_count{result="settled"} 1.0' in got["metrics"][1]


class Threads(Collector):
    """In which thread it is asked for its series."""

    def __init__(self) -> None:
        self.seen: list[threading.Thread] = []

    def collect(self) -> Iterable[Metric]:
        self.seen.append(threading.current_thread())
        return ()


async def served(metrics: Metrics | Meter) -> str:
    """Its page."""
    runner, port = await serve(metrics, Health(), "127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as response:
            return await response.text()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("of", [Metrics, Meter])
async def test_the_page_is_made_beside_the_event_loop_and_what_the_loop_keeps_is_read_on_it(of):
    metrics, threads, reads = of(), Threads(), []
    metrics.registry.register(threads)
    metrics.gauge("answer", "text", lambda: reads.append(threading.current_thread()) or 42)
    assert f"{'operator' if of is Metrics else 'activator'}_answer 42.0" in await served(metrics)
    here = threading.current_thread()
    assert (reads[-1] is here, threads.seen[-1] is here) == (True, False)


async def test_lines_of_models_are_told_and_when_a_series_began_is_not():
    meter = Meter()
    meter.know(("team", "chat"))
    meter.waited(("team", "chat"), 0.3)
    meter.expose(lambda: [(("team", "chat"), 3, 2)], lambda: 7)
    text = await served(meter)
    for line in (
        'held{name="chat",namespace="team"} 3.0',
        'workers{name="chat",namespace="team"} 2.0',
        "held_bytes 7.0",
    ):
        assert f"modelfleet_activator_{line}\n" in text
    assert 'modelfleet_activator_waited_seconds_count{name="chat",namespace="team"} 1.0\n' in text
    assert "_created" not in text


def test_what_was_taken_of_the_loop_stays_as_it_was_while_the_text_is_made():
    meter, lines = Meter(), [(("team", "chat"), 3, 2)]
    meter.expose(lambda: iter(lines), lambda: 0)
    taken = meter.kept.taken()
    lines.clear()
    held, workers, _ = taken.collect()
    assert [each.samples[0].value for each in (held, workers)] == [3, 2]


@pytest.mark.looptime(start=0)
async def test_loop_lag_is_none_on_a_loop_that_is_never_late():
    lag = LoopLag()
    task = asyncio.create_task(lag.run())
    await asyncio.sleep(10)
    task.cancel()
    assert lag.lag_s == 0.0


@pytest.fixture
def logs():
    """What was logged, as JSON lines; the root logger is put back afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    written = io.StringIO()
    configure_logs("info", written)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.handlers[:] = before
    root.setLevel(level)
    logging.getLogger("modelfleet").setLevel(logging.NOTSET)


def test_a_log_line_is_one_json_object_with_its_extra_fields(logs):
    logging.getLogger("modelfleet.x").info("reconciled: %s", "changed", extra={"object": "ns/chat", "writes": 2})
    (line,) = logs()
    assert (line["message"], line["object"], line["writes"], line["level"]) == (
        "reconciled: changed",
        "ns/chat",
        2,
        "info",
    )


def test_kopf_s_tracebacks_are_left_out_and_those_of_our_bugs_are_not(logs):
    for name in ("kopf._core.reactor.orchestration", "kopf.objects"):
        try:
            raise KeyError("x")
        except KeyError:
            logging.getLogger(name).exception("failed")
    framework, ours = logs()
    assert ("traceback" in framework, "traceback" in ours) == (False, True)


def test_kopf_s_request_errors_are_told_once_in_a_while(logs):
    for number in range(50):
        logging.getLogger("kopf._cogs.clients.watching").error("Request attempt #%s failed", number)
    assert len(logs()) == 1
