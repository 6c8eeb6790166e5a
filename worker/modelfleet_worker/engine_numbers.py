"""What an engine's metrics page says of its work. Pure."""

_WORK = (
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:iteration_tokens_total_count",
    "vllm:request_success_total",
    "vllm:num_preemptions_total",
    "vllm:kv_cache_usage_perc",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
)
"""These move when an engine works: counters at each step that gave a token, gauges at each step of a long prefill."""


def numbers(page: str) -> tuple[float, ...]:
    """The sum over all engines of each number above; 0 for one that is not there."""
    sums = dict.fromkeys(_WORK, 0.0)
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        name = series.partition("{")[0]
        if name in sums:
            try:
                sums[name] += float(value)
            except ValueError:
                continue  # not a number that anybody wrote
    return tuple(sums.values())
