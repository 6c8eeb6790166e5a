"""What the operator tells about itself: probes, metrics, logs."""

import asyncio
import io
import json
import logging

import aiohttp
import pytest

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
