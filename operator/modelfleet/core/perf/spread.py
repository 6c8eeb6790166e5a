"""The distribution of the two times over single requests. Pure.

Both are taken as lognormal with a mean and a relative deviation: they are above 0 and skewed to the right.
"""

from dataclasses import dataclass
from math import erf, exp, inf, log, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Means and relative standard deviations of both times, and the waiting for room that some requests have before."""

    ttft_s: float
    tpot_s: float
    ttft_cv: float
    tpot_cv: float

    def ttft_at(self, share: float) -> float:
        """The TTFT that `share` of the requests stay below."""
        return _lognormal_at(self.ttft_s, self.ttft_cv, share)

    def tpot_at(self, share: float) -> float:
        """The TPOT that `share` of the requests stay below."""
        return _lognormal_at(self.tpot_s, self.tpot_cv, share)

    def share(self, ttft_s: float, tpot_s: float) -> float:
        """The share of requests inside both limits.

        A slow moment delays first tokens and later ones alike, so the truth is between the product of the two shares
        and the smaller one; the product is the pessimistic end.
        """
        return _lognormal_below(self.ttft_s, self.ttft_cv, ttft_s) * _lognormal_below(self.tpot_s, self.tpot_cv, tpot_s)


def _lognormal(mean: float, cv: float) -> tuple[float, float]:
    variance = log(1 + cv * cv)
    return log(mean) - variance / 2, sqrt(variance)


def _lognormal_at(mean: float, cv: float, share: float) -> float:
    if cv <= 0:
        return mean
    centre, width = _lognormal(mean, cv)
    return exp(centre + width * _NORMAL.inv_cdf(share))


def _lognormal_below(mean: float, cv: float, value: float) -> float:
    if cv <= 0 or value <= 0 or value == inf:
        return float(mean <= value)
    centre, width = _lognormal(mean, cv)
    return 0.5 * (1 + erf((log(value) - centre) / width / sqrt(2)))
