"""What the supplies of a class say about its nodes."""

from typing import Any

import pytest

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.core.placement.supplies import may_buy, notice_s, supply_of
from unit.core.placement.sites import GPU, node

OWN = {"name": "own", "nodeSelector": {"pool": "own"}}
SPOT = {
    "name": "spot",
    "nodeSelector": {"pool": "spot"},
    "provisioning": "Autoscaled",
    "limit": 24,
    "noticePeriod": "2m",
}
REST = {"name": "rest", "provisioning": "Autoscaled", "limit": 8}


def kind(*supplies: Any) -> AcceleratorClass:
    spec = {"nodeSelector": {"gpu": "h100"}, "resourceName": GPU, "acceleratorsPerNode": 8, "supplies": list(supplies)}
    return AcceleratorClass.model_validate({"metadata": {"name": "h100"}, "spec": spec})


@pytest.mark.parametrize(
    ("supplies", "pool", "name", "seconds"),
    [
        pytest.param((OWN, SPOT), "spot", "spot", 120.0, id="the labels tell"),
        pytest.param((OWN, SPOT), "own", "own", None, id="a supply without a notice"),
        pytest.param((OWN, SPOT, REST), "other", "rest", None, id="a supply without labels takes the rest"),
        pytest.param((OWN,), "other", None, None, id="nobody's"),
    ],
)
def test_whose_a_node_is_and_how_long_its_drain_may_take(supplies, pool, name, seconds):
    found = supply_of(kind(*supplies), {"pool": pool})
    assert (found and found.name, notice_s(kind(*supplies), {"pool": pool})) == (name, seconds)


NODES = [node("n1", labels={"pool": "spot"}), node("n2", labels={"pool": "own"}), node("n3", labels={"gpu": "other"})]


@pytest.mark.parametrize(
    ("supplies", "ordered", "more", "said"),
    [
        pytest.param((), 0, 1, "", id="a class without supplies buys nothing"),
        pytest.param((OWN,), 0, 1, "", id="static supplies buy nothing"),
        pytest.param((OWN, SPOT), 0, 16, None, id="up to the limit, with what is there"),
        pytest.param((OWN, SPOT), 0, 17, "supply spot has 8 of at most 24", id="above the limit"),
        pytest.param(
            (SPOT,), 8, 9, "supply spot has 8 of at most 24, and 8 are asked for already", id="what is ordered counts"
        ),
        pytest.param((SPOT, {**OWN, "provisioning": "Autoscaled"}), 99, 99, None, id="a supply without a limit"),
    ],
)
def test_how_much_may_be_bought(supplies, ordered, more, said):
    assert may_buy(kind(*supplies), NODES, ordered, more) == said
