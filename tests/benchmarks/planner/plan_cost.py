"""Time and memory of one plan: a 405B model over all classes of the catalogue."""

import time
import tracemalloc
from typing import Any

from modelfleet.core.catalog import CATALOG
from modelfleet.core.layout.answer import Answer
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.question import Candidate, LengthRegime, Objective, Question, Variant
from modelfleet.core.model.facts import Scheme
from modelfleet.core.model.known import known

_TIMES = 5


def question() -> Question:
    """Llama-3.1-405B in bf16 and fp8 at 2 requests a second, on any class."""
    facts = known("Llama-3.1-405B-Instruct")
    if facts is None:
        raise ValueError("Llama-3.1-405B-Instruct is not known")
    lengths = LengthRegime(input_p50_tokens=900, input_p95_tokens=4000, output_p50_tokens=250, output_p95_tokens=800)
    schemes = (Scheme.BF16, Scheme.FP8)
    return Question(
        variants=tuple(Variant(weights=one, source=f"pvc://models/{one}", facts=facts) for one in schemes),
        candidates=tuple(
            Candidate(
                name=name,
                hardware=entry.hardware,
                standard_weights=entry.standard_weights,
                standard_kv=entry.standard_kv,
            )
            for name, entry in CATALOG.items()
        ),
        objectives=(Objective(name="chat", ttft_s=2.0, tpot_s=0.1, share=0.95, load_rps=2.0, lengths=lengths),),
        max_context_tokens=16384,
        engine_version="0.32.0",
    )


def report() -> dict[str, Any]:
    """Seconds of this process's processor time, of the first call and of the fastest of later ones; peak MiB."""
    asked = question()
    first = _seconds(asked)
    later = min(_seconds(asked) for _ in range(_TIMES))
    tracemalloc.start()
    found: Answer = answer(asked)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "classes": len(asked.candidates),
        "first_s": first,
        "fastest_s": later,
        "peak_mib": peak / 2**20,
        "answered": not found.problems,
    }


def _seconds(asked: Question) -> float:
    start = time.process_time()
    answer(asked)
    return time.process_time() - start
