"""What an engine prints: lines of any length and form, while it runs, and what of it explains nothing."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from modelfleet_worker.diagnosis import Evidence
from modelfleet_worker.engine import Engine
from modelfleet_worker.failure import Reason
from modelfleet_worker.memory_log import Listener
from modelfleet_worker.start_outlook import Heard, Phase, heard

OUT = "ERROR 11-29 17:54:29 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
DUMP = "ERROR 11-29 17:54:29 [dump_input.py:79] Dumping scheduler output for model execution: SchedulerOutput("
_BAR = """
import sys, time, pathlib
print("\\rCapturing CUDA graphs (decode):   0%|  | 0/2", end="", flush=True)
print("\\rCapturing CUDA graphs (decode):  50%|# | 1/2", end="\\r", flush=True)
while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)
sys.stdout.buffer.write(b"caf\\xc3\\n" + b"x" * 300_000 + b"\\r\\nlast words")
"""


async def test_a_progress_bar_is_heard_while_it_moves_and_every_byte_is_passed_on(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines: list[str] = []
    engine = Engine([sys.executable, "-c", _BAR, str(tmp_path / "go")], {}, str(tmp_path), [lines.append])
    async with asyncio.timeout(30):
        while Heard(Phase.WARM_UP, 0.5) not in map(heard, lines):  # noqa: ASYNC110 (a thread hears)
            await asyncio.sleep(0.02)
        (tmp_path / "go").touch()
        await engine.ended()
    failure = engine.failure("starting")
    assert failure.log.endswith("last words")
    assert max(map(len, lines)) <= 64 * 1024
    assert sum(line.count("x") for line in lines) == 300_000
    passed = capfdbinary.readouterr().out
    assert passed.endswith(b"caf\xc3\n" + b"x" * 300_000 + b"\r\nlast words")
    assert b"50%|# | 1/2\r" in passed


@pytest.mark.parametrize("text", ["Capturing CUDA graphs", "KV cache size: 1", "Loading x checkpoint "])
def test_a_line_that_repeats_what_we_look_for_costs_no_time(text: str) -> None:
    line = text * (64 * 1024 // len(text))
    began_s = time.process_time()
    heard(line)
    listener = Listener()
    listener.add(line)
    listener.add("Dumping scheduler output for model execution " + "NewRequestData(" * 4000)
    assert time.process_time() - began_s < 1.0, "the worker's probes wait meanwhile"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"(APIServer pid=7) {OUT}", id="in its log"),
        pytest.param(f"(EngineCore pid=9) {DUMP}[NewRequestData(req_id=cmpl-OutOfMemoryError,", id="the name it chose"),
        pytest.param(f"(ApiServer_3 pid=7) {OUT}", id="in the log of one of several"),
        pytest.param(
            'INFO:     ::ffff:10.0.0.7:53542 - "GET /v1/models?OutOfMemoryError HTTP/1.1" 200 OK', id="asked for"
        ),
        pytest.param(
            'INFO:     10.0.0.7:53542 - "POST /EngineDeadError HTTP/1.1" 404 Not Found', id="asked for in vain"
        ),
    ],
)
def test_words_of_a_client_are_no_memory_that_ran_out(line: str) -> None:
    evidence, listener = Evidence(), Listener()
    for teller in (evidence, listener):
        teller.forget_start()
        teller.add(line)
    assert (listener.said().out_of_memory, listener.said().silent) == ("", False)
    assert evidence.failure(-9, "serving").reason is Reason.ENGINE_DIED
    assert ("HTTP/1.1" in evidence.log) is False, "requests would crowd out what the engine said last"
    assert "without a word" not in evidence.failure(1, "serving").message
    for teller in (evidence, listener):
        teller.add(f"(EngineCore pid=9) {OUT}")
    assert listener.said().tried_bytes == 2 << 30
    assert evidence.failure(-9, "serving").reason is Reason.ENGINE_OUT_OF_MEMORY
