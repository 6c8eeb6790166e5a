"""Good and bad objects about what the planner is told: layouts, weights, money, measurements."""

from collections.abc import Mapping
from typing import Any

from api_bad_values import VERSION
from api_objects import Bad, Good
from planner_worlds import FACTS_8B

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

_LAYOUTS = (
    Bad(
        "a spread that is none",
        {"spec.placement.spread": "Rack"},
        "spec.placement.spread",
        "must be one of 'Zone', 'Node' or 'None'",
        server="Unsupported value",
    ),
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

PLANNER_BAD = _LAYOUTS + _WEIGHTS + _PROFILES
