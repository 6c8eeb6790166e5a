"""CEL expressions of DeviceClasses, on a device as a ResourceSlice tells it."""

from typing import Any

import celpy
import pytest

from modelfleet.controller.device_parts import parts_read
from modelfleet.controller.device_selectors import selects
from modelfleet.core.placement.devices import DeviceBooks, device_class_entry, slice_entry

SLICE = {
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "gpu-0",
                "attributes": {
                    "productName": {"string": "Example X100"},
                    "index": {"int": 3},
                    "healthy": {"bool": True},
                    "driverVersion": {"version": "580.10.0-rc.2"},
                    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
                    "peers": {"unknown": [1, 2]},
                },
                "capacity": {"memory": {"value": "80Gi"}},
            }
        ],
    }
}
MINE = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.driver == "other.example.com"', False),
        (f'device.driver == "gpu.example.com" && {MINE}.productName == "Example X100"', True),
        (f'{MINE}.productName.startsWith("Example") && !{MINE}.productName.matches("Y[0-9]+")', True),
        (f'{MINE}.productName.lowerAscii().contains("x100")', True),
        (f"{MINE}.index in [2, 3] && {MINE}.healthy", True),
        ('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"', True),
        (f'{MEMORY}.compareTo(quantity("80Gi")) == 0', True),
        (f'{MEMORY}.isGreaterThan(quantity("85G"))', True),
        (f'{MEMORY}.isLessThan(quantity("80Gi"))', False),
        (f'{MINE}.driverVersion.isGreaterThan(semver("580.9.9"))', True),
        (f'{MINE}.driverVersion.isLessThan(semver("580.10.0"))', True),
        (f'{MINE}.driverVersion.isLessThan(semver("580.10.0-rc.10"))', True),
        (f"{MINE}.driverVersion.major() == 580", True),
        ('has(device.attributes["other.example.com"].model)', False),
        ('"other.example.com" in device.attributes', False),
        ('device.attributes["other.example.com"].model == "x"', False),
        (f'has({MINE}.productName) || device.attributes["other.example.com"].model == "x"', True),
        ("device.allowMultipleAllocations", False),
    ],
)
def test_an_expression_holds_as_the_scheduler_decides_it(expression: str, holds: bool):
    (device,) = slice_entry(SLICE).devices.values()
    assert selects(expression, device) is holds


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver ==",
        f"{MINE}.peers.size() == 2",
        "nonsense(device)",
        "1 + 1 == 2 &&",
        f"{MINE}.driverVersion > 3",
        f"{MEMORY} <= 3",
        pytest.param("(" * 400 + "true" + ")" * 400, id="four hundred brackets"),
        pytest.param("!" * 3000 + "true", id="three thousand negations"),
    ],
)
def test_what_cannot_be_evaluated_here_selects_nothing(expression: str):
    (device,) = slice_entry(SLICE).devices.values()
    assert selects(expression, device) is False


MODEL = ("attributes", "gpu.example.com", "productName")


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        pytest.param('device.driver == "gpu.example.com"', set(), id="the driver is no part"),
        pytest.param("device.allowMultipleAllocations", set(), id="what all have alike is no part"),
        pytest.param(f'{MINE}.productName == "x"', {MODEL}, id="an attribute"),
        pytest.param("device.attributes['gpu.example.com']['productName'] == 'x'", {MODEL}, id="as an index"),
        pytest.param(f'(({MINE})).productName == "x"', {MODEL}, id="in brackets"),
        pytest.param(f'has({MINE}.productName) && {MINE}.productName.matches("x")', {MODEL}, id="asked for, matched"),
        pytest.param(
            f'{MEMORY}.isGreaterThan(quantity("1Gi")) ? true : {MINE}.productName in ["uuid"]',
            {MODEL, ("capacity", "gpu.example.com", "memory")},
            id="capacity, and every branch",
        ),
        pytest.param('["a"].exists(uuid, uuid == "a")', set(), id="a macro over something else"),
        pytest.param(f'{MINE}.exists(name, name == "uuid")', None, id="a macro over a map"),
        pytest.param(f'"uuid" in {MINE}', None, id="whether a map has a name"),
        pytest.param(f'{MINE}[device.driver] == "x"', None, id="a name that is computed"),
        pytest.param('device.attributes[device.driver].productName == "x"', None, id="a domain that is computed"),
        pytest.param('[device.attributes["a"]][0]["b"] == "x"', None, id="a map in a list"),
        pytest.param('device.attributes["a\\\\b"].c', None, id="a string with escapes"),
        pytest.param("device.size() == 3", None, id="the device itself"),
        pytest.param(".device.driver.size() == 3", None, id="from the root"),
    ],
)
def test_only_what_an_expression_names_of_a_device_is_a_part_of_it(expression: str, parts: set[Any] | None):
    found = parts_read(celpy.Environment().compile(expression))
    assert found == (None if parts is None else frozenset(parts))


def gpus(node: int) -> Any:
    """Eight devices of a node as a driver publishes them: each has an uuid and an address of its own."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{node}-{index}"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{node:02x}:{index:02x}.0"},
            },
        }
        for index in range(8)
    ]
    pool = {"name": f"n{node}", "generation": 1, "resourceSliceCount": 1}
    return slice_entry({"spec": {"driver": DRIVER, "nodeName": f"n{node}", "pool": pool, "devices": devices}})


DRIVER = "gpu.unique.example.com"
UNIQUE = f'device.attributes["{DRIVER}"]'


@pytest.mark.parametrize(
    ("expressions", "chosen", "evaluated"),
    [
        pytest.param(
            [f'device.driver == "{DRIVER}"', f'{UNIQUE}.type == "gpu"'], 1000, 2, id="once for each expression"
        ),
        pytest.param([f'{UNIQUE}.uuid == "GPU-3-4"'], 1, 1000, id="once for each device where it names the uuid"),
        pytest.param([f'{UNIQUE}.exists(name, name == "uuid")'], 1000, 1000, id="and where it may look at all"),
    ],
)
def test_devices_that_differ_in_what_no_expression_names_are_evaluated_once(
    expressions: list[str], chosen: int, evaluated: int, monkeypatch: pytest.MonkeyPatch
):
    counted, real = [], celpy.InterpretedRunner.evaluate
    monkeypatch.setattr(celpy.InterpretedRunner, "evaluate", lambda *of: counted.append(of) or real(*of))
    books = DeviceBooks(selects)
    for node in range(125):
        books.set_slice(f"s{node}", gpus(node))
    selectors = [{"cel": {"expression": each}} for each in expressions]
    books.set_class("gpu", device_class_entry({"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}))
    resource = "deviceclass.resource.kubernetes.io/gpu"
    books.ask([resource])
    assert sum(books.offered(f"n{node}")[resource] for node in range(125)) == chosen
    assert len(counted) == evaluated
