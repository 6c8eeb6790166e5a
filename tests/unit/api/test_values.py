"""Durations, quantities, shares, rates and sources: what is read, and the one spelling of equal values."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.api.sources import ModelSource
from modelfleet.api.values import Duration, Quantity, Rate, Share


@pytest.mark.parametrize(
    ("text", "milliseconds", "canonical"),
    [
        pytest.param("500ms", 500, "500ms", id="milliseconds"),
        pytest.param("60s", 60_000, "1m", id="sixty seconds are a minute"),
        pytest.param("1m", 60_000, "1m", id="a minute"),
        pytest.param("1500ms", 1_500, "1s500ms", id="a second and a half"),
        pytest.param("1h30m10s5ms", 5_410_005, "1h30m10s5ms", id="all units"),
        pytest.param("10s1h", 3_610_000, "1h10s", id="units in any order"),
        pytest.param("0h", 0, "0s", id="nothing"),
    ],
)
def test_a_duration_is_read_and_spelled_in_one_way(text: str, milliseconds: int, canonical: str) -> None:
    duration = Duration(text)

    assert (duration.milliseconds, duration.canonical) == (milliseconds, canonical)
    assert duration.seconds == milliseconds / 1000


@pytest.mark.parametrize("text", ["", "5", "0.5s", "-1s", "1s ", "1d", "100000s", "1h1m1s1ms1h", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 500ms, 30s or 1m30s"):
        Duration(text)


@given(st.integers(0, 99_999), st.integers(0, 99_999), st.integers(0, 99_999))
def test_a_durations_canonical_form_is_the_same_time_and_stays(minutes: int, seconds: int, milliseconds: int) -> None:
    duration = Duration(f"{minutes}m{seconds}s{milliseconds}ms")

    assert duration.milliseconds == minutes * 60_000 + seconds * 1_000 + milliseconds
    assert Duration(duration.canonical).milliseconds == duration.milliseconds
    assert Duration(duration.canonical).canonical == duration.canonical


@pytest.mark.parametrize(
    ("raw", "exact", "canonical"),
    [
        pytest.param("1Gi", 2**30, "1073741824", id="a gibibyte"),
        pytest.param("1024Mi", 2**30, "1073741824", id="the same in mebibytes"),
        pytest.param(2**30, 2**30, "1073741824", id="the same as a number"),
        pytest.param("1.5Gi", 3 * 2**29, "1610612736", id="a fraction of a unit"),
        pytest.param("500m", Fraction(1, 2), "500m", id="half a core"),
        pytest.param("0.5", Fraction(1, 2), "500m", id="half a core as a decimal"),
        pytest.param(".5", Fraction(1, 2), "500m", id="half a core without its zero"),
        pytest.param("1.", 1, "1", id="a number without its decimals"),
        pytest.param("+2", 2, "2", id="a number with a sign"),
        pytest.param("2000m", 2, "2", id="two cores in thousandths"),
        pytest.param("12e6", 12_000_000, "12000000", id="an exponent"),
        pytest.param("12E-1", Fraction(12, 10), "1200m", id="an exponent below nothing"),
        pytest.param("2E", 2 * 10**18, str(2 * 10**18), id="exabytes"),
        pytest.param("1n", Fraction(1, 10**9), "1m", id="less than a thousandth is rounded up"),
    ],
)
def test_a_quantity_is_read_and_spelled_in_one_way(raw: str | int, exact: Fraction, canonical: str) -> None:
    quantity = Quantity(raw)

    assert (quantity.exact, quantity.canonical) == (exact, canonical)


def test_a_quantity_has_bytes_and_thousandths_of_a_core_rounded_up() -> None:
    assert (Quantity("1.5").bytes, Quantity("1.5").millicores, Quantity("100u").millicores) == (2, 1500, 1)


@pytest.mark.parametrize("raw", ["", "-1", "1GB", "1 Gi", "Gi", "1e", ".", True, None, [], -1])
def test_what_is_no_quantity_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="such as 4"):
        Quantity(raw)


@pytest.mark.parametrize(
    ("raw", "fraction", "canonical"),
    [
        pytest.param("99%", Fraction(99, 100), "99%", id="a percentage"),
        pytest.param("99.90%", Fraction(999, 1000), "99.9%", id="needless zeros"),
        pytest.param(95, Fraction(95, 100), "95%", id="a whole number is a percentage"),
        pytest.param("0.01%", Fraction(1, 10_000), "0.01%", id="hardly any"),
    ],
)
def test_a_share_is_exact(raw: str | int, fraction: Fraction, canonical: str) -> None:
    assert (Share(raw).fraction, Share(raw).canonical) == (fraction, canonical)


def test_a_rate_is_exact() -> None:
    rates = [Rate(12), Rate("12.0"), Rate("012.000")]

    assert {rate.per_second for rate in rates} == {Fraction(12)}
    assert {rate.canonical for rate in rates} == {"12"}
    assert Rate("0.125").per_second == Fraction(1, 8)


@pytest.mark.parametrize(
    ("text", "claim", "path", "canonical"),
    [
        pytest.param("pvc://weights/a/b", "weights", "a/b", "pvc://weights/a/b", id="a folder"),
        pytest.param("pvc://weights/a/b/", "weights", "a/b", "pvc://weights/a/b", id="a slash too many"),
        pytest.param("pvc://my.claim", "my.claim", "", "pvc://my.claim", id="the root"),
    ],
)
def test_a_source_has_a_claim_and_a_path(text: str, claim: str, path: str, canonical: str) -> None:
    source = ModelSource(text)

    assert (source.claim, source.path, source.canonical) == (claim, path, canonical)
