"""What one replica was seen to do in the window, to be read beside what was predicted of it. Pure."""

from typing import Any

from modelfleet.api.goodput_status import Observed
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.core.layout.wording import rounded, seconds
from modelfleet.core.promise import digest
from modelfleet.core.scaling.goodput import Goodput, Measured, mean_in_flight
from modelfleet.core.scaling.reading import Histogram
from modelfleet.core.scaling.samples import Samples, queued


def observed(deployment: ModelDeployment, samples: Samples, found: Goodput) -> dict[str, Any] | None:
    """Of the objective that binds, as the prediction is; None without a request that finished.

    The times are what the promised share of finished requests stayed inside, from a histogram: exact where that is the
    limit itself, else within the bucket.
    """
    of = found.binding
    if of is None or of.counted is None or not found.fresh:
        return None
    counts, now = of.counted.counts, queued(samples)
    in_flight = mean_in_flight(samples, digest(deployment), of.name)
    kv_tokens = now.kv_total_tokens if now else None
    seen = Observed(
        ttft=_time(counts.ttft_s, of),
        tpot=_time(counts.tpot_s, of),
        requests_per_second=_number(of.counted.arrivals_rps / found.fresh),
        concurrency=_number(in_flight / found.fresh) if in_flight is not None else None,
        kv_cache_tokens=round(kv_tokens / now.pods) if kv_tokens and now else None,
    )
    return seen.model_dump(mode="json", by_alias=True, exclude_none=True)


def _time(values: Histogram | None, of: Measured) -> str | None:
    value_s = values.quantile(of.target) if values else None
    if values is None or value_s is None:
        return None
    above = value_s >= values.edges[-1]
    return f"over {seconds(value_s)}" if above else seconds(value_s)


def _number(value: float) -> str:
    return rounded(value).replace(",", "")
