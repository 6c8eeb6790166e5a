"""Leases and events as others may have left them: the operator still decides who leads, and still tells."""

import json
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from fuzz_mutations import ODD_TEXT
from fuzz_values import TIMES

from builders import deployment
from fake_cluster import FakeCluster
from modelfleet.controller import election
from modelfleet.controller.election import Step, Timing
from modelfleet.controller.events import Recorder
from modelfleet.controller.resources import EVENTS
from modelfleet.core.effects import Event

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NUMBERS = (None, 0, 1, -1, 15, 2**31 - 1, -(2**31))
NAMES = (None, "", "us_1234", "another", "x" * 253, *ODD_TEXT)


def lease(rng: Random) -> dict[str, Any] | None:
    """A spec as the server's types allow it."""
    if rng.random() < 0.1:
        return None
    spec = {
        "holderIdentity": rng.choice(NAMES),
        "leaseDurationSeconds": rng.choice(NUMBERS),
        "leaseTransitions": rng.choice(NUMBERS),
        "acquireTime": rng.choice((None, *TIMES)),
        "renewTime": rng.choice((None, *TIMES)),
    }
    return {key: part for key, part in spec.items() if rng.random() < 0.8}


@pytest.mark.parametrize("seed", range(20))
def test_any_lease_is_decided_on_and_one_that_does_not_change_is_taken_in_the_end(seed: int) -> None:
    rng, timing = Random(seed), Timing()
    for _ in range(100):
        record = election.read(lease(rng))
        sight = election.see(None, record, 0.0)
        decision = election.decide(sight, "us_1234", 0.0, timing)
        if decision.step is Step.WAIT:
            assert decision.expires_s is not None
            decision = election.decide(sight, "us_1234", decision.expires_s, timing)
        assert decision.step in (Step.TAKE, Step.RENEW)
        spec = election.spec_of(election.record_for(sight, "us_1234", NOW, timing))
        assert spec["holderIdentity"] == "us_1234"
        json.dumps(spec)


@pytest.mark.parametrize("seed", range(5))
async def test_any_message_becomes_an_event_that_the_server_takes(seed: int) -> None:
    rng, cluster = Random(seed), FakeCluster("team")
    recorder = Recorder(cluster, "x" * 300, lambda: NOW)
    for number in range(100):
        message = rng.choice(ODD_TEXT) * rng.choice((1, 1, 40))
        regarding = deployment("a" * rng.choice((4, 63, 200, 253)), metadata={"uid": f"uid-{number}"})
        recorder.record(regarding, Event("Warning", "Unschedulable", message))
    await recorder.flush()
    written = await cluster.list(EVENTS, "team")
    assert len(written) == 100
    assert max(len(event["metadata"]["name"]) for event in written) <= 253
    assert max(len(event["note"]) for event in written) <= 1024
    assert max(len(event["reportingInstance"]) for event in written) <= 128
