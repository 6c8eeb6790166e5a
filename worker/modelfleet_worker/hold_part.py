"""What holding sessions does and costs, on the worker's page."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from modelfleet_worker.gate_state import Board
from modelfleet_worker.hold_counts import read_holding
from modelfleet_worker.parts import Part


class HoldPart(Part):
    """Zeros where nothing is held."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def metrics(self) -> Iterable[Metric]:
        seen = read_holding(self._board.folder)
        yield GaugeMetricFamily("modelfleet_worker_held_sessions", "Sessions whose blocks are held now.", seen.sessions)
        yield GaugeMetricFamily("modelfleet_worker_held_tokens", "Tokens of these sessions.", seen.tokens)
        text = "Requests for one token that keep a session's blocks from ageing."
        yield CounterMetricFamily("modelfleet_worker_hold_touches", text, seen.touches)
        yield CounterMetricFamily(
            "modelfleet_worker_hold_touched_tokens", "Their prompts' tokens.", seen.touched_tokens
        )
        text = "Tokens that the engine computed for them, which is what holding costs."
        yield CounterMetricFamily("modelfleet_worker_hold_computed_tokens", text, seen.computed_tokens)
        text = "Sessions that are held no more, or never were, by why."
        ended = CounterMetricFamily("modelfleet_worker_hold_ended", text, labels=["why"])
        for why, count in seen.ended.items():
            ended.add_metric([why], count)
        yield ended
