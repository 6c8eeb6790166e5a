"""Why the worst rows are as far off as they are, group by group: what was looked at, and what is not known."""

from benchmarks.planner.errors import Predicted

_CAUSES = {
    ("MiniMax-M2.5", "h100-sxm", "vllm"): "past the cliff: with the fp8 cache that is assumed there is room for 82, "
    "with a 16-bit one for 41; requests waited at 64, so it was 16 bit here, which the source does not state",
    ("Llama-3.1-70B", "b200", "trtllm"): "TTFT moves between 60 and 300 ms at 4 users of the same prompts, by the "
    "length of the output and the layout: the source's warm-up is in it",
    ("gpt-oss-120b", "h200", "trtllm"): "past the cliff: 55 of 64 requests ran at once where there is room for "
    "hundreds; the engine was left less memory than its default, which the source does not state",
    ("DeepSeek-V3", "b200", "sglang"): "seconds of TTFT at any length and concurrency, in one layout of one day and in "
    "no other: something was not warm; no step explains it",
    ("DeepSeek-V3", "b300", "sglang"): "prompts take five times the time of the same layout on b200: an early build of "
    "the kernels for this chip",
    (
        "DeepSeek-V3",
        "h200",
        "trtllm",
    ): "attention data parallelism was measured with this architecture only: left out, "
    "nothing is known of how long the engine holds prompts back until all ranks have one",
    ("DeepSeek-V3", "b200", "trtllm"): "some rows ran with multi-token prediction and are not marked: the same "
    "configuration stands twice, at half the TPOT",
    ("GLM-5", "h200", "sglang"): "past the cliff: 39 of 64 requests ran, as many as a 16-bit cache has room for; the "
    "fp8 cache that is assumed has room for 64",
    ("Kimi-K2.5", "h200", "vllm"): "an outlier of the source: TPOT of 64 ms at 16 users between 12 ms at 8 and 22 ms "
    "at 32",
    (
        "Kimi-K2.5",
        "b200",
        "vllm",
    ): "TTFT of 170 ms at 4 users with expert parallelism and 82 ms without; a fixed time of "
    "its all-to-all set-up that the model has no term for",
    ("MiniMax-M2.5", "b300", "vllm"): "its label says attention data parallelism over two ranks; it is read as tensor "
    "parallelism, as equal rows of the other accelerators confirm, and the all-reduce of 1,024 users is then too dear",
    ("gpt-oss-120b", "b200", "vllm"): "left out, mxfp4 experts on a chip with four-bit units are predicted from nvfp4 "
    "ones, whose prompts cost more",
    ("Llama-3.1-70B", "h200", "vllm"): "left out, no dense model of this engine remains; the collectives of eight "
    "accelerators come from mixture models",
}


def table(rows: list[Predicted]) -> list[str]:
    """A Markdown table of rows with their causes."""
    lines = ["| row | TTFT ms, predicted/measured | TPOT ms | cause |", "| --- | --- | --- | --- |"]
    for one in rows:
        row = one.row
        lengths = f"{row.lengths.input_tokens:g}/{row.lengths.output_tokens:g}"
        name = f"{' '.join(row.group)} {row.precision} {row.label} {lengths}, {row.concurrency:g} users"
        ttft = f"{one.ttft_s * 1000:.0f}/{row.ttft_s * 1000:.0f}"
        tpot = f"{one.tpot_s * 1000:.1f}/{row.tpot_s * 1000:.1f}"
        lines.append(f"| {name} | {ttft} | {tpot} | {_CAUSES.get(row.group, 'not known')} |")
    return lines
