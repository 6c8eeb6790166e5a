"""Good and bad accelerator classes: how devices are recognised, what they do and cost, where they come from."""

from collections.abc import Mapping
from typing import Any

from api_bad_values import DURATION, VERSION
from api_objects import ABSENT, CLASS, Bad, Good

PERFORMANCE: Mapping[str, Any] = {
    "spec.memory": "81559Mi",
    "spec.memoryBandwidth": "3350G",
    "spec.compute": {"bf16": "989T", "fp8": "1979T", "int8": "1979T"},
}

ONE_RESOURCE = (
    "a class names exactly one of resourceName (what a device plugin offers) and deviceClassName (devices of Dynamic"
    " Resource Allocation)"
)
POSITIVE = "the quantity must be above zero"
PRICE = 'a price is a decimal number, zero or above, such as 2 or "2.49"'
WHOLE = "memory, memoryBandwidth and compute come together: write all three, or none, and then nothing is predicted"

CLASS_GOOD = (
    Good("a class with its performance", PERFORMANCE, CLASS),
    Good(
        "a class of devices of Dynamic Resource Allocation",
        {"spec.resourceName": ABSENT, "spec.deviceClassName": "gpu.example.com"},
        CLASS,
    ),
    Good(
        "a class with all that a plan is made from",
        {
            **PERFORMANCE,
            "spec.compute.fp4": 4500000000000000,
            "spec.computeCapability": "9.0",
            "spec.fabric": {"bandwidth": "450G", "domainSize": 72},
            "spec.network": {"bandwidth": "50G"},
            "spec.supplies": [
                {"name": "reserved", "pricePerAcceleratorHour": "2.49"},
                {"name": "spot", "pricePerAcceleratorHour": 1, "currency": "EUR"},
                {
                    "name": "bought",
                    "nodeSelector": {"example.com/pool": "bought"},
                    "provisioning": "Autoscaled",
                    "limit": 64,
                    "noticePeriod": "2m",
                },
            ],
            "spec.storageBandwidth": "2G",
            "spec.topologyKeys": ["nvidia.com/gpu.clique", "topology.kubernetes.io/zone"],
            "spec.standardQuantization": {"weights": "fp8", "kvCache": "fp8"},
            "spec.engineVersions": ["0.32.1", "0.33.0rc1"],
        },
        CLASS,
    ),
)

CLASS_BAD = (
    Bad(
        "a class that is recognised by nothing",
        {"spec.resourceName": ABSENT},
        "spec",
        ONE_RESOURCE,
        base=CLASS,
    ),
    Bad("a class of two names", {"spec.deviceClassName": "gpu.example.com"}, "spec", ONE_RESOURCE, base=CLASS),
    Bad(
        "a DeviceClass of a longer name than a resource may have",
        {"spec.resourceName": ABSENT, "spec.deviceClassName": "g" * 64},
        "spec.deviceClassName",
        "at most 63 characters",
        server="spec.deviceClassName: Too long: may not be more than 63 bytes",
        base=CLASS,
    ),
    Bad("a class with half of its performance", {"spec.memory": "80Gi"}, "spec.memory", WHOLE, base=CLASS),
    Bad(
        "a class without memory",
        {**PERFORMANCE, "spec.memory": "0Gi"},
        "spec.memory",
        POSITIVE,
        base=CLASS,
    ),
    Bad("a memory of nothing as a number", {**PERFORMANCE, "spec.memory": 0}, "spec.memory", POSITIVE, base=CLASS),
    Bad(
        "a class without 16-bit arithmetic",
        {**PERFORMANCE, "spec.compute": {"fp8": "1979T"}},
        "spec.compute.bf16",
        "is required: 16-bit floating point, such as 989T",
        server="spec.compute.bf16: Required value",
        base=CLASS,
    ),
    Bad(
        "a compute capability without its dot",
        {**PERFORMANCE, "spec.computeCapability": "90"},
        "spec.computeCapability",
        'a compute capability is two numbers with a dot in quotes, such as "9.0"',
        base=CLASS,
    ),
    Bad(
        "a price below zero",
        {"spec.supplies": [{"name": "spot", "pricePerAcceleratorHour": "-1"}]},
        "spec.supplies[0].pricePerAcceleratorHour",
        PRICE,
        base=CLASS,
    ),
    Bad(
        "a limit of nodes that nobody adds",
        {"spec.supplies": [{"name": "own", "limit": 8}]},
        "spec.supplies[0].limit",
        "limit bounds what an autoscaler adds: write provisioning Autoscaled, or leave limit out",
        base=CLASS,
    ),
    Bad(
        "a notice period that is no duration",
        {"spec.supplies": [{"name": "spot", "noticePeriod": "soon"}]},
        "spec.supplies[0].noticePeriod",
        DURATION,
        base=CLASS,
    ),
    Bad(
        "a provisioning that is none",
        {"spec.supplies": [{"name": "spot", "provisioning": "Auto"}]},
        "spec.supplies[0].provisioning",
        "must be one of 'Static' or 'Autoscaled'",
        server="Unsupported value",
        base=CLASS,
    ),
    Bad(
        "storage that reads nothing",
        {"spec.storageBandwidth": "0"},
        "spec.storageBandwidth",
        "the quantity must be above zero",
        base=CLASS,
    ),
    Bad(
        "a topology key twice",
        {"spec.topologyKeys": ["example.com/rack", "example.com/rack"]},
        "spec.topologyKeys",
        "example.com/rack stands here twice",
        server="Duplicate value",
        base=CLASS,
    ),
    Bad(
        "a price in a currency that is none",
        {"spec.supplies": [{"name": "spot", "pricePerAcceleratorHour": "1", "currency": "usd"}]},
        "spec.supplies[0].currency",
        "a currency is three capital letters, such as USD",
        base=CLASS,
    ),
    Bad(
        "a standard that is none",
        {"spec.standardQuantization": {"weights": "q4"}},
        "spec.standardQuantization.weights",
        "must be one of 'bf16', 'fp16', 'fp8', 'int8', 'int4', 'mxfp4' or 'nvfp4'",
        server="Unsupported value",
        base=CLASS,
    ),
    Bad("a version that is none", {"spec.engineVersions": ["latest"]}, "spec.engineVersions[0]", VERSION, base=CLASS),
)
