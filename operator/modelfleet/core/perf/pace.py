"""How fast a replica serves a given number of requests at the same time, with continuous batching. Pure.

Every request brings its prompt and then one token a step. With N requests running and O output tokens each, a step sees
N / O new prompts on average, so

    TPOT = decode step(N) + N / O × prompt's extra time
    TTFT = outside of steps + waited steps × decode step(N) + prompt's extra time × (1 + others' prompts before it)

Pipeline stages take prompts one after the other, each for its part. Data-parallel ranks wait for each other in every
mixture layer, so prompts overlap only where they happen to come together: measured TPOTs with 4 and 8 ranks grow as if
the square root of the ranks' prompts ran at once (TensorRT-LLM, DeepSeek-V3 on H200 and B200).
"""

from dataclasses import dataclass, replace
from math import inf, sqrt

from modelfleet.core.layout.shape import Layout
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.constants import Constants, constants_for
from modelfleet.core.perf.memory_activation import Batching, batching
from modelfleet.core.perf.memory_version import Era
from modelfleet.core.perf.numbers import BYTES
from modelfleet.core.perf.steps import weigh
from modelfleet.core.perf.terms import Batch, Experts, experts_of, step_terms
from modelfleet.core.perf.workload import Lengths

_TOKEN_BUDGET = 8192
"""Tokens a step takes in other engines than vLLM where the setup says nothing (their chunk of a prompt)."""


@dataclass(frozen=True, kw_only=True)
class Factors:
    """Corrections of the three parts of a pace; 1 is none."""

    prefill: float = 1.0
    decode: float = 1.0
    overhead: float = 1.0


PLAIN = Factors()


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Times with `running` requests served at the same time, in seconds, before corrections."""

    running: float
    alone_s: float
    """A step with one sequence and no prompt: what does not grow with the load."""
    decode_s: float
    """One step without prompts."""
    prompt_s: float
    """Extra time that one prompt costs the steps that it is prefilled in."""
    outside_s: float
    """Of a request, outside of the steps."""
    waited_steps: float
    prompts_a_step: float
    ahead: float
    """Others' prompts before one's own when a closed loop starts or users fall into step."""

    def step_s(self, factors: Factors = PLAIN) -> float:
        """The mean step: TPOT."""
        return self.decode_s * factors.decode + self.prompts_a_step * self.prompt_s * factors.prefill

    def first_token_s(self, factors: Factors = PLAIN, ahead: float | None = None) -> float:
        """From arrival to the first token, without waiting for room; `ahead` replaces the closed loop's crowd."""
        waited = self.waited_steps * self.decode_s * factors.decode
        crowd = self.ahead if ahead is None else ahead
        return self.outside_s * factors.overhead + waited + self.prompt_s * factors.prefill * (1 + crowd)


@dataclass(frozen=True, kw_only=True)
class Course:
    """The paces of one case and lengths at any load: all terms but the experts' are linear in what runs."""

    fixed_s: float
    sequence_s: float
    prompt_s: float
    experts: tuple[tuple[float, Experts], ...]
    """Seconds a parameter."""
    prompt_tokens: float
    outside_s: float
    waited_steps: float
    burst: float
    output_tokens: float
    layout: Layout

    def decode_step_s(self, sequences: float) -> float:
        """A step that decodes `sequences` and has no prompt."""
        return self.fixed_s + self.sequence_s * sequences + self._experts_s(sequences)

    def _experts_s(self, tokens: float) -> float:
        return sum(each_s * experts.read(tokens) for each_s, experts in self.experts)

    def at(self, running: float) -> Pace:
        """The pace of `running` requests, above 0, in the whole replica."""
        batch = running / self.layout.pipeline
        read_s = self._experts_s(batch)
        return Pace(
            running=running,
            alone_s=min(self.decode_step_s(1.0), self.decode_step_s(batch)),
            decode_s=self.decode_step_s(batch),
            prompt_s=self.prompt_s + self._experts_s(batch + self.prompt_tokens) - read_s,
            outside_s=self.outside_s,
            waited_steps=self.waited_steps,
            prompts_a_step=running / self.output_tokens / prompts_at_once(self.layout),
            ahead=self.burst * max(running - 1, 0.0) / 2 / sqrt(self.layout.data),
        )


def pace(case: Case, lengths: Lengths, running: float) -> Pace:
    """The pace of `running` requests, above 0, in the whole replica."""
    return course(case, lengths).at(running)


def course(case: Case, lengths: Lengths, constants: Constants | None = None) -> Course:
    """The paces of a case with requests of `lengths`; `constants` replace the fitted ones where they are given."""
    k = constants or constants_for(case)
    prompt = max(lengths.input_tokens - lengths.shared_prefix_tokens, 1.0)
    held, chunks = held_tokens(lengths), max(prompt / token_budget(case), 1.0)

    def seconds(batch: Batch, prompts: float = 0.0) -> float:
        return weigh(replace(step_terms(case, batch), experts_s=0.0), k, prompts=prompts).total_s

    fixed_s = seconds(Batch())
    mixed = Batch(prefill_tokens=prompt, prefill_context_tokens=lengths.shared_prefix_tokens)
    byte_s = k.experts_s * BYTES[case.setup.weights] / case.hardware.memory_bytes_per_s
    return Course(
        fixed_s=fixed_s,
        sequence_s=seconds(Batch(decode_sequences=1.0, decode_context_tokens=held)) - fixed_s,
        prompt_s=seconds(mixed, chunks) - fixed_s,
        experts=tuple((byte_s, experts) for experts in experts_of(case)),
        prompt_tokens=prompt,
        outside_s=k.prompt_s,
        waited_steps=k.wait_steps + chunks - 1 + (k.rank_steps if case.layout.data > 1 else 0.0),
        burst=k.burst,
        output_tokens=lengths.output_tokens,
        layout=case.layout,
    )


def prompts_at_once(layout: Layout) -> float:
    """Prompts that the replica works on in the time of one."""
    return layout.pipeline * sqrt(layout.data)


def held_tokens(lengths: Lengths) -> float:
    """What a running request holds in the cache: its input and, on average, half of its output."""
    return lengths.input_tokens + lengths.output_tokens / 2


def token_budget(case: Case) -> int:
    """Tokens that one step takes at most, in one data-parallel rank; where the setup says nothing, the engine's own."""
    if case.setup.token_budget:
        return case.setup.token_budget
    return _batching(case).tokens if case.setup.engine == "vllm" else _TOKEN_BUDGET


def sequence_cap(case: Case) -> float:
    """Requests that run at the same time at most, in the whole replica, whatever room there is."""
    if case.setup.engine != "vllm" and not case.setup.sequence_cap:
        return inf
    return float(_batching(case).sequences * case.layout.data)


def _batching(case: Case) -> Batching:
    return batching(case, Era.of(case.setup.version, case.facts.architecture))
