"""Good and bad objects about what the planner is told: performance, layouts, weights, money, measurements."""

from collections.abc import Mapping
from typing import Any

from api_bad_values import DURATION
from api_objects import ABSENT, CLASS, Bad, Good
from planner_worlds import FACTS_8B

PERFORMANCE: Mapping[str, Any] = {
    "spec.memory": "81559Mi",
    "spec.memoryBandwidth": "3350G",
    "spec.compute": {"bf16": "989T", "fp8": "1979T", "int8": "1979T"},
}
PROFILE: Mapping[str, Any] = {
    "apiVersion": "modelfleet.dev/v1alpha1",
    "kind": "ModelProfile",
    "metadata": {"name": "llama-h100", "namespace": "default"},
    "spec": {
        "source": "pvc://weights/llama",
        "class": "h100-sxm",
        "layout": "tp2",
        "quantization": {"weights": "fp8"},
        "provenance": {"by": "modelfleet calibrate"},
    },
}

ONE_RESOURCE = (
    "a class names exactly one of resourceName (what a device plugin offers) and deviceClassName (devices of Dynamic"
    " Resource Allocation)"
)
POSITIVE = "the quantity must be above zero"
PRICE = 'a price is a decimal number, zero or above, such as 2 or "2.49"'
VERSION = "an engine version is numbers with dots, such as 0.32.1; write it in quotes"
WHOLE = "memory, memoryBandwidth and compute come together: write all three, or none, and then nothing is predicted"
ONE = (
    "strategy Replicas puts a replica on one accelerator: leave tensor, pipeline and data out, or write strategy"
    " Sharded"
)
DRAFT = (
    "the draft must be on the claim of model.source and of all variants: one claim with models is mounted in this"
    " version"
)
FACTOR = 'a factor is a decimal number above 0 and below 100, such as "1.08"'

PLANNER_GOOD = (
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
    Good("several classes in an order", {"spec.accelerators": {"classes": ["h100-sxm", "h200"], "prefer": "Order"}}),
    Good(
        "a layout that is pinned whole",
        {"spec.parallelism": {"strategy": "Sharded", "tensor": 8, "pipeline": 2, "data": 1, "expert": "Never"}},
    ),
    Good(
        "weights to choose among, and an exception with its evidence",
        {
            "spec.model.variants": [{"weights": "fp8", "source": "pvc://weights/llama-fp8"}],
            "spec.quantization": {
                "weights": "int4",
                "kvCache": "fp8",
                "evidence": {"artifact": "llama-awq", "evaluation": "https://example.com/1", "engineVersion": "0.32.1"},
                "online": "Allow",
            },
            "spec.engine.version": "0.32.1",
        },
    ),
    Good("a model that is described by hand", {"spec.model.facts": FACTS_8B}),
    Good(
        "a mixture that is described by hand",
        {
            "spec.model.facts": {
                **FACTS_8B,
                "hiddenSize": 4100,
                "headSize": 128,
                "weights": "fp8",
                "mixture": {"experts": 128, "expertsPerToken": 8, "expertIntermediateSize": 1536},
            }
        },
    ),
    Good("speculation without a draft", {"spec.speculation": {"mode": "Auto", "method": "ngram"}}),
    Good(
        "speculation with a draft",
        {"spec.speculation": {"method": "eagle3", "model": "pvc://weights/llama-eagle3"}},
    ),
    Good("no speculation", {"spec.speculation.mode": "Never"}),
    Good(
        "an API to compare with",
        {
            "spec.economics.apiPrice": {
                "inputPerMillionTokens": "0.6",
                "outputPerMillionTokens": 2,
                "cachedInputPerMillionTokens": 0,
                "currency": "EUR",
            },
            "spec.economics.reasons": ["DataControl", "Latency"],
            "spec.scaling.maxAccelerators": 48,
        },
    ),
    Good("a profile", base=PROFILE),
    Good("another word for the plan", {"spec.replan": "profile-1"}),
    Good(
        "a profile with everything measured",
        {
            "spec.layout": "tp4-dp4-ep16",
            "spec.quantization.kvCache": "fp8",
            "spec.engineVersion": "0.32.1",
            "spec.stepTime": {
                "prefill": "1.08",
                "prefillSamples": 20,
                "decode": 1,
                "decodeSamples": 400,
                "overhead": "0.9",
                "ttftUncertainty": "20%",
                "tpotUncertainty": 8,
            },
            "spec.knee": {
                "promise": "36e4628f5b92",
                "requestsPerSecond": "2.41",
                "uncertainty": "9%",
                "samples": 10000,
            },
            "spec.kvCacheTokens": 412345,
            "spec.provenance.note": "one replica, ten minutes",
        },
        PROFILE,
    ),
)

_CLASSES = (
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
        "a spread that is none",
        {"spec.placement.spread": "Rack"},
        "spec.placement.spread",
        "must be one of 'Zone', 'Node' or 'None'",
        server="Unsupported value",
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

_LAYOUTS = (
    Bad(
        "replicas that are sharded",
        {"spec.parallelism": {"strategy": "Replicas", "tensor": 2}},
        "spec.parallelism.strategy",
        ONE,
    ),
    Bad(
        "expert parallelism as a truth value",
        {"spec.parallelism.expert": False},
        "spec.parallelism.expert",
        "must be one of 'Auto', 'Always' or 'Never'",
        server="must be of type string",
    ),
    Bad(
        "a class that is listed twice",
        {"spec.accelerators.classes": ["h100-sxm", "h100-sxm"]},
        "spec.accelerators.classes",
        "h100-sxm stands here twice",
        server="Duplicate value",
    ),
    Bad(
        "no room for an accelerator",
        {"spec.scaling.maxAccelerators": 0},
        "spec.scaling.maxAccelerators",
        "must be at least 1",
        server="should be greater than or equal to 1",
    ),
    Bad(
        "a draft without its weights",
        {"spec.speculation.method": "eagle3"},
        "spec.speculation.model",
        "the method eagle3 needs model, where the draft's weights are",
    ),
    Bad(
        "weights for a method without a draft",
        {"spec.speculation": {"method": "ngram", "model": "pvc://weights/draft"}},
        "spec.speculation.model",
        "model is for the method eagle3: write it as method, or leave model out",
    ),
    Bad(
        "a draft on another claim",
        {"spec.speculation": {"method": "eagle3", "model": "pvc://drafts/llama"}},
        "spec.speculation.model",
        DRAFT,
    ),
    Bad(
        "a draft on another claim than a variant",
        {
            "spec.speculation": {"method": "eagle3", "model": "pvc://weights/draft"},
            "spec.model.variants": [{"weights": "fp8", "source": "pvc://quantized/llama"}],
        },
        "spec.speculation.model",
        DRAFT,
    ),
)

_WEIGHTS = (
    Bad(
        "a variant twice",
        {"spec.model.variants": [{"weights": "fp8", "source": f"pvc://weights/{name}"} for name in "ab"]},
        "spec.model.variants",
        "fp8 stands here twice",
        server="Duplicate value",
    ),
    Bad(
        "evidence without its evaluation",
        {"spec.quantization.evidence": {"artifact": "a", "engineVersion": "0.32.1"}},
        "spec.quantization.evidence.evaluation",
        "is required: Where the result of the evaluation is",
        server="spec.quantization.evidence.evaluation: Required value",
    ),
    Bad(
        "evidence of nothing",
        {"spec.quantization.evidence": {"artifact": "", "evaluation": "b", "engineVersion": "0.32.1"}},
        "spec.quantization.evidence.artifact",
        "a reference is text on one line, and not empty",
    ),
    Bad(
        "an engine version as a number",
        {"spec.engine.version": 0.32},
        "spec.engine.version",
        VERSION,
        server="must be of type string",
    ),
    Bad(
        "key and value heads that do not divide the heads",
        {"spec.model.facts": {**FACTS_8B, "kvHeads": 5}},
        "spec.model.facts.kvHeads",
        "kvHeads must divide heads: each key and value head serves the same number of heads",
    ),
    Bad(
        "heads without a size",
        {"spec.model.facts": {**FACTS_8B, "hiddenSize": 4100}},
        "spec.model.facts.headSize",
        "heads does not divide hiddenSize: write headSize",
    ),
    Bad(
        "more experts a token than there are",
        {
            "spec.model.facts": {
                **FACTS_8B,
                "mixture": {"experts": 4, "expertsPerToken": 8, "expertIntermediateSize": 1536},
            }
        },
        "spec.model.facts.mixture.expertsPerToken",
        "expertsPerToken must not be above experts",
    ),
)

_PROFILES = (
    Bad("a factor of nothing", {"spec.stepTime.decode": "0"}, "spec.stepTime.decode", FACTOR, base=PROFILE),
    Bad(
        "a layout that is none",
        {"spec.layout": "8x"},
        "spec.layout",
        "a layout is written such as tp2, tp8-pp2 or tp4-dp4-ep16",
        base=PROFILE,
    ),
    Bad(
        "a knee without a promise",
        {"spec.knee": {"requestsPerSecond": "2"}},
        "spec.knee.promise",
        "is required: What it was measured for: a digest of the objectives' times, shares and lengths",
        server="spec.knee.promise: Required value",
        base=PROFILE,
    ),
    Bad(
        "a knee that is not sure of anything",
        {"spec.knee": {"promise": "a", "requestsPerSecond": "2", "uncertainty": "100%"}},
        "spec.knee.uncertainty",
        'a share is a percentage above 0% and below 100%, such as "99%" or "99.9%"',
        base=PROFILE,
    ),
    Bad(
        "two words for the plan",
        {"spec.replan": "once more"},
        "spec.replan",
        "a label's value is letters, digits, '-', '_' and '.', and begins and ends with a letter or digit",
    ),
    Bad(
        "a profile of nobody",
        {"spec.provenance": {}},
        "spec.provenance.by",
        "is required: Who or what measured, such as a command",
        server="spec.provenance.by: Required value",
        base=PROFILE,
    ),
)

PLANNER_BAD = _CLASSES + _LAYOUTS + _WEIGHTS + _PROFILES
