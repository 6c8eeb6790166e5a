"""What an engine's metrics page says of its work. Pure."""

WORK = (
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:iteration_tokens_total_count",
    "vllm:request_success_total",
    "vllm:num_preemptions_total",
    "vllm:kv_cache_usage_perc",
)
"""These move when an engine works: counters at a step that gave a token, the gauge as a long prefill fills its cache.
None moves because somebody asks: a request that nobody works on is not work."""


def numbers(page: str) -> tuple[float, ...]:
    """The sum over all engines of each number above; 0 for one that is not there."""
    sums = dict.fromkeys(WORK, 0.0)
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        name = series.partition("{")[0]
        if name in sums:
            try:
                sums[name] += float(value)
            except ValueError:
                continue  # not a number that anybody wrote
    return tuple(sums.values())
