"""What keeps a session's blocks is nobody's request: what the engine does for it is counted for none, and let go."""

import asyncio
import gc
import json
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_engine_counts import scheduler
from test_gate import CHAT, TOKEN, Client, http
from test_gate_goodput import Notes

from modelfleet_worker import hold, ledger
from modelfleet_worker.engine_counts import EngineCounts
from modelfleet_worker.gate import Gate
from modelfleet_worker.gate_state import FOLDER_VARIABLE, TOKEN_VARIABLE, Board
from modelfleet_worker.hold_counts import read_holding
from modelfleet_worker.promise import parse_promise

HOLD = {"header": "x-tier", "values": ["gold"], "maxGap_s": 600, "maxShareOfCache": 0.5}
PROMISE = json.dumps(
    {"digest": "0123abcd", "objectives": [{"name": "chat", "ttft_s": 1.0, "tpot_s": 1.0}], "hold": HOLD}
)
CACHE_TOKENS, TOUCHES = 1000, 5


class Engine:
    """Takes one sequence a request, as the plugin tells of it, and keeps whose it was and whether its notes live."""

    def __init__(self) -> None:
        self.requests: list[ledger.Request | None] = []
        self.notes: list[weakref.ref[Notes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        notes = Notes()
        self.requests.append(ledger.CURRENT.get())
        self.notes.append(weakref.ref(notes))
        state = SimpleNamespace(
            prompt_token_ids=[1, 2, 3],
            detokenizer=SimpleNamespace(output_token_ids=[4]),
            lora_name=None,
            num_cached_tokens=4,
        )
        ledger.sequence_added(notes, 3)
        hold.added(SimpleNamespace(mm_features=[], cache_salt=None), state)
        ledger.sequence_finished(notes, "length")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"end"})


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    board = Board(tmp_path / "gate")
    board.set_promise(parse_promise(PROMISE), PROMISE)
    monkeypatch.setenv(FOLDER_VARIABLE, str(board.folder))
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    return board


@pytest.mark.looptime
async def test_a_held_session_s_touches_belong_to_no_request_and_leave_nothing(board: Board) -> None:
    counts, engine, client = EngineCounts(board.folder, 0), Engine(), Client()
    counts.sized(CACHE_TOKENS)
    await Gate(engine)(http(CHAT, (b"x-tier", b"gold")), client.receive, client.send)
    for _ in range(TOUCHES):
        filled = SimpleNamespace(queries=CACHE_TOKENS, hits=0)
        counts.record(scheduler(prefix_cache_stats=filled, num_waiting_reqs=0, num_skipped_waiting_reqs=0), None)
        await asyncio.sleep(1.0)
    assert read_holding(board.folder).touches == TOUCHES
    request, *touches = engine.requests
    assert request is not None
    assert touches == [None] * TOUCHES
    assert len(request.sequences) == 1
    gc.collect()
    assert [notes() for notes in engine.notes[1:]] == [None] * TOUCHES
