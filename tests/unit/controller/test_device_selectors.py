"""CEL expressions of DeviceClasses, on a device as a ResourceSlice tells it."""

import pytest

from modelfleet.controller.device_selectors import selects
from modelfleet.core.placement.devices import slice_entry

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
    "expression", ["device.driver ==", f"{MINE}.peers.size() == 2", "nonsense(device)", "1 + 1 == 2 &&"]
)
def test_what_cannot_be_evaluated_here_selects_nothing(expression: str):
    (device,) = slice_entry(SLICE).devices.values()
    assert selects(expression, device) is False
