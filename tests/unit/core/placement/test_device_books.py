"""Devices of Dynamic Resource Allocation in the books: what a node offers, and what claims hold of it."""

from typing import Any

from modelfleet.core.placement.devices import DeviceBooks, claim_entry, device_class_entry, slice_entry
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.project import NodeEntry, PodEntry

DRIVER = "gpu.example.com"
IMPLICIT = "deviceclass.resource.kubernetes.io/large"
EXPLICIT = "example.com/large"
SMALL = "deviceclass.resource.kubernetes.io/small"
NODE = NodeEntry({}, {"cpu": 8000}, True, False, ())


def has_model(expression: str, device: Any) -> bool:
    """Stands for CEL: an expression is the model that a device must be of."""
    return device["attributes"].get(DRIVER, {}).get("model") == {"string": expression}


def a_slice(*devices: dict[str, Any], node: str = "n1", pool: str = "n1", generation: int = 1, count: int = 1) -> Any:
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": list(devices),
    }
    return slice_entry({"metadata": {"name": "s"}, "spec": spec})


def device(name: str, model: str = "large", **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def a_claim(*devices: str, pod: str = "", **more: Any) -> Any:
    metadata: dict[str, Any] = {"name": "c", "namespace": "m"}
    if pod:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        metadata["ownerReferences"] = [{"kind": "Pod", "name": pod, "controller": True}]
    results = [{"driver": DRIVER, "pool": "n1", "device": one, **more} for one in devices]
    return claim_entry({"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}}})


def books() -> Ledger:
    ledger = Ledger(devices=DeviceBooks(has_model))
    ledger.set_node("n1", NODE)
    ledger.set_node("n2", NODE)
    large = {
        "metadata": {"name": "large"},
        "spec": {"extendedResourceName": EXPLICIT, "selectors": [{"cel": {"expression": "large"}}]},
    }
    ledger.recount(ledger.devices.set_class("large", device_class_entry(large)))
    ledger.recount(ledger.devices.ask((IMPLICIT, EXPLICIT, SMALL)))
    return ledger


def free(ledger: Ledger, resource: str = IMPLICIT) -> list[int]:
    return [node.free.get(resource, 0) for node in ledger.view("m/other", {}).nodes]


def put(ledger: Ledger, name: str, entry: Any) -> None:
    ledger.recount(ledger.devices.set_slice(name, entry))


def claim(ledger: Ledger, name: str, entry: Any) -> None:
    ledger.recount(ledger.devices.set_claim(name, entry))


def test_a_node_offers_the_devices_that_the_class_selects_under_both_of_its_names():
    ledger = books()
    assert free(ledger) == [0, 0]
    put(ledger, "s1", a_slice(device("a"), device("b"), device("c", model="small")))
    assert (free(ledger), free(ledger, EXPLICIT)) == ([2, 0], [2, 0])
    put(ledger, "s1", a_slice(device("a")))
    assert free(ledger) == [1, 0]
    put(ledger, "s1", None)
    assert free(ledger) == [0, 0]


def test_what_claims_hold_is_taken_and_comes_back():
    ledger = books()
    put(ledger, "s1", a_slice(device("a"), device("b")))
    claim(ledger, "m/c", a_claim("a"))
    assert free(ledger) == [1, 0]
    claim(ledger, "m/c", None)
    assert free(ledger) == [2, 0]


def test_an_administrator_who_looks_at_a_device_takes_nothing():
    assert a_claim("a", adminAccess=True) is None


def test_a_pod_s_request_and_the_claim_that_the_scheduler_made_for_it_count_once():
    ledger = books()
    put(ledger, "s1", a_slice(device("a"), device("b"), device("c")))
    claim(ledger, "m/worker-claim", a_claim("a", "b", pod="worker"))
    assert free(ledger) == [1, 0]  # the claim is seen first
    ledger.set_pod("m/worker", PodEntry("n1", {IMPLICIT: 2}))
    assert free(ledger) == [1, 0]
    claim(ledger, "m/worker-claim", None)
    assert free(ledger) == [1, 0]  # its devices are not seen held: the pod's request still stands for them


def test_devices_that_a_pod_has_under_the_other_name_are_taken_under_this_one():
    ledger = books()
    put(ledger, "s1", a_slice(device("a"), device("b"), device("c")))
    ledger.set_pod("m/foreign", PodEntry("n1", {EXPLICIT: 2}))
    claim(ledger, "m/foreign-claim", a_claim("a", "b", pod="foreign"))
    assert (free(ledger), free(ledger, EXPLICIT)) == ([1, 0], [1, 0])


def test_where_a_device_plugin_offers_the_name_its_number_is_what_counts():
    ledger = books()
    ledger.set_node("n1", NodeEntry({}, {EXPLICIT: 8}, True, False, ()))
    put(ledger, "s1", a_slice(device("a")))
    assert (free(ledger, EXPLICIT), free(ledger)) == ([8, 0], [1, 0])


def test_devices_that_no_pod_can_have_alone_are_not_counted():
    ledger = books()
    put(
        ledger,
        "s1",
        a_slice(
            device("tainted", taints=[{"key": "sick", "effect": "NoExecute"}]),
            device("shared", allowMultipleAllocations=True),
            device("part", consumesCounters=[{"counterSet": "gpu-0"}]),
            device("whole", taints=[{"key": "told", "effect": "None"}]),
        ),
    )
    assert free(ledger) == [1, 0]


def test_a_pool_counts_once_its_newest_generation_is_there_as_a_whole():
    ledger = books()
    put(ledger, "s1", a_slice(device("a"), generation=1))
    put(ledger, "s2", a_slice(device("a"), device("b"), generation=2, count=2))
    assert free(ledger) == [0, 0]
    put(ledger, "s3", a_slice(device("c"), generation=2, count=2))
    assert free(ledger) == [3, 0]


def test_slices_of_no_single_node_are_left_out():
    assert slice_entry({"spec": {"driver": DRIVER, "allNodes": True, "pool": {"name": "p"}, "devices": []}}) is None


def test_a_class_that_comes_late_or_goes_changes_what_its_nodes_offer():
    ledger = books()
    put(ledger, "s1", a_slice(device("a", model="small")))
    small = {"metadata": {"name": "small"}, "spec": {"selectors": [{"cel": {"expression": "small"}}]}}
    ledger.recount(ledger.devices.set_class("small", device_class_entry(small)))
    assert free(ledger, SMALL) == [1, 0]
    ledger.recount(ledger.devices.set_class("small", None))
    assert free(ledger, SMALL) == [0, 0]


class Looked:
    """Stands for CEL, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, expression: str, device: Any) -> bool:
        self.asked.append(expression)
        return has_model(expression, device)


def of_model(model: str) -> Any:
    spec = {"selectors": [{"cel": {"expression": model}}]}
    return device_class_entry({"metadata": {"name": model}, "spec": spec})


def test_a_class_that_nobody_asks_for_is_not_looked_at_until_somebody_does():
    looked = Looked()
    ledger = Ledger(devices=DeviceBooks(looked))
    ledger.set_node("n1", NODE)
    for model in ("large", "small"):
        ledger.recount(ledger.devices.set_class(model, of_model(model)))
    put(ledger, "s1", a_slice(device("a"), device("b", model="small")))
    assert (free(ledger), looked.asked, list(ledger.devices.unseen)) == ([0], [], [])
    ledger.recount(ledger.devices.ask([IMPLICIT]))
    assert (free(ledger), free(ledger, SMALL), looked.asked) == ([1], [0], ["large"] * 2)
    ledger.recount(ledger.devices.ask([IMPLICIT, SMALL]))
    assert (free(ledger), free(ledger, SMALL), looked.asked) == ([1], [1], ["large"] * 2 + ["small"] * 2)


def test_a_slice_is_looked_at_again_only_when_it_or_a_class_of_it_changes():
    looked = Looked()
    ledger = Ledger(devices=DeviceBooks(looked))
    ledger.set_node("n1", NODE)
    ledger.recount(ledger.devices.set_class("large", of_model("large")))
    ledger.recount(ledger.devices.ask([IMPLICIT, SMALL]))
    put(ledger, "s1", a_slice(device("a"), pool="p", count=2))
    put(ledger, "s2", a_slice(device("b"), pool="p", count=2))
    assert (free(ledger), looked.asked) == ([2], ["large"] * 2)
    looked.asked.clear()
    put(ledger, "s2", a_slice(device("b"), device("c"), pool="p", count=2))
    assert (free(ledger), looked.asked) == ([3], ["large"] * 2)
    looked.asked.clear()
    ledger.recount(ledger.devices.set_class("small", of_model("small")))
    assert (free(ledger), looked.asked) == ([3], ["small"] * 3)
    looked.asked.clear()
    ledger.recount(ledger.devices.set_class("large", of_model("small")))
    assert (free(ledger), looked.asked) == ([0], [])


class Counted:
    """A slice of one device, which notes each look at its generation."""

    driver, pool, slices, devices = DRIVER, "fabric", 300, {"a": {}}
    looks = 0

    def __init__(self, node: str, generation: int = 1) -> None:
        self.node, self._generation = node, generation

    @property
    def generation(self) -> int:
        Counted.looks += 1
        return self._generation


def test_the_newest_generation_of_a_pool_over_many_nodes_is_found_once():
    books = DeviceBooks(lambda _expression, _device: True)
    books.set_class("large", of_model("large"))
    books.ask([IMPLICIT])
    for number in range(300):
        books.set_slice(f"s{number}", Counted(f"n{number}"))
    Counted.looks = 0
    assert [books.offered(f"n{number}")[IMPLICIT] for number in range(300)] == [1] * 300
    assert Counted.looks <= 3 * 300
    books.set_slice("s7", Counted("n7", generation=2))  # a newer generation, of which the others are missing
    assert {books.offered(f"n{number}")[IMPLICIT] for number in range(300)} == {0}
