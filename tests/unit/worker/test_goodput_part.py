"""The part that hands the promise on and shows the counts: what is read, what is kept, what the page says."""

import asyncio
import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from modelfleet_worker import goodput_part
from modelfleet_worker.gate_state import ModeReader
from modelfleet_worker.goodput_part import GoodputPart
from modelfleet_worker.parts import Around
from modelfleet_worker.state import State
from modelfleet_worker.tally import Tally
from worker_around import around_in


def promise(digest: str, **change: Any) -> str:
    return json.dumps({"digest": digest, "objectives": [{"name": "chat", "ttft_s": 0.5, "tpot_s": 0.05, **change}]})


@pytest.fixture
def around(tmp_path: Path) -> Around:
    return around_in(tmp_path)


def page(part: GoodputPart) -> list[str]:
    class Page(Collector):
        def collect(self) -> Any:
            return part.metrics()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Page())
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


async def test_the_promise_is_there_before_the_first_request_and_so_are_its_zeros(around: Around) -> None:
    around.promise.write_text(promise("0123456789ab"))
    part = GoodputPart(around)
    assert await part.check() is None
    reader = ModeReader(around.board.folder)
    assert reader.promise is not None
    assert reader.promise.digest == "0123456789ab"
    lines = page(part)
    assert 'modelfleet_promise_info{promise="0123456789ab"} 1.0' in lines
    zeros = [line for line in lines if line.startswith("modelfleet_goodput_requests_total")]
    assert len(zeros) == 9
    assert all(line.endswith(" 0.0") for line in zeros)
    assert 'modelfleet_goodput_ttft_seconds_bucket{le="0.5",objective="chat",promise="0123456789ab"} 0.0' in lines
    assert 'modelfleet_engine_steps_total{decode="0",prefill="0"} 0.0' in lines


async def test_without_a_promise_there_is_no_data_rather_than_zero(around: Around) -> None:
    part = GoodputPart(around)
    await part.check()
    lines = page(part)
    assert not [line for line in lines if "goodput" in line or "promise" in line]
    assert "modelfleet_engine_preemptions_total 0.0" in lines


async def test_a_promise_that_cannot_be_read_leaves_the_one_before(around: Around) -> None:
    around.promise.write_text(promise("0123456789ab"))
    part = GoodputPart(around)
    await part.check()
    around.promise.write_text(promise("ba9876543210", ttft_s=-1))
    await part.check()
    assert around.board.promise is not None
    assert around.board.promise.digest == "0123456789ab"


async def test_counts_of_the_promise_before_stay_beside_those_of_the_new_one(around: Around) -> None:
    around.promise.write_text(promise("0123456789ab"))
    part = GoodputPart(around)
    await part.check()
    assert around.board.promise is not None
    Tally(around.board.folder, around.board.promise).begin(None)
    around.promise.write_text(promise("ba9876543210"))
    await part.check()
    lines = page(part)
    arrivals = 'modelfleet_goodput_arrivals_total{objective="chat",promise="%s"} %s'
    assert arrivals % ("0123456789ab", "1.0") in lines
    assert arrivals % ("ba9876543210", "0.0") in lines
    assert 'modelfleet_promise_info{promise="ba9876543210"} 1.0' in lines


async def test_an_engine_that_tells_nothing_of_its_requests_is_of_no_use(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goodput_part, "_POLL_S", 0.0)
    around.progress.state = State.SERVING
    failure = await asyncio.wait_for(GoodputPart(around).watch(), 30)
    assert failure.message.startswith("The engine serves without our plugin")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param(
            "(Worker pid=1) INFO EPLB step: 3 for model m: avg_tokens=2.00, max_tokens=4, balancedness=0.5000, steps",
            "modelfleet_engine_expert_balancedness 0.5",
            id="told",
        ),
        pytest.param("balancedness=0.1 in a prompt", "", id="of somebody else"),
    ],
)
def test_the_balance_of_experts(around: Around, line: str, shown: str) -> None:
    part = GoodputPart(around)
    part.heard(line)
    assert "".join(one for one in page(part) if "balancedness" in one) == shown


def test_python_finds_the_plugin_beside_the_code(around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    assert GoodputPart(around).equip(around.runtime).args == ("--enable-logging-iteration-details",)
    monkeypatch.syspath_prepend(around.runtime)
    (found,) = entry_points(group="vllm.stat_logger_plugins")
    assert (found.name, found.value) == ("modelfleet", "modelfleet_worker.vllm_plugin:GoodputStatLogger")
    (found,) = entry_points(group="vllm.general_plugins")
    assert (found.name, found.value) == ("modelfleet_core", "modelfleet_worker.vllm_core:install")
