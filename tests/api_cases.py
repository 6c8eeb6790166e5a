"""Good and bad objects and what is said about them: one table for Python, the API server and `modelfleet lint`."""

from api_bad_values import VALUES
from api_class_cases import CLASS_BAD, CLASS_GOOD
from api_engine_cases import ENGINE_BAD, ENGINE_GOOD
from api_objects import ABSENT, AT, CLASS, OBJECTIVE, SECOND, Bad, Good
from api_planner_cases import PLANNER_BAD, PLANNER_GOOD
from api_rollout_cases import ROLLOUT_BAD, ROLLOUT_GOOD
from api_scaling_cases import SCALING_BAD, SCALING_GOOD
from api_session_cases import SESSION_BAD, SESSION_GOOD
from api_to_zero_cases import TO_ZERO_BAD, TO_ZERO_GOOD
from api_weight_cases import WEIGHT_BAD, WEIGHT_GOOD
from modelfleet.api.engine_options import REFUSED_FLAGS

NAME = (
    "metadata.name becomes a Service's name: at most 63 lower-case letters, digits and '-', a letter first and no '-'"
    " last"
)
END_TO_END = (
    "an end-to-end latency objective is refused: it mixes waiting, prompt length and answer length, so a longer answer"
    " breaks it and no capacity mends it; write ttft (time to first token) and tpot (time per output token) with the"
    " load and lengths that they hold for"
)

GOOD = (
    Good("the least that is needed"),
    Good(
        "everything set",
        {
            "spec.model.servedNames": ["chat", "meta-llama/Llama-3.1-8B"],
            "spec.model.maxContextTokens": 16384,
            f"{OBJECTIVE}.share": "99.9%",
            f"{OBJECTIVE}.lengths.inputTokens.max": 16384,
            f"{OBJECTIVE}.lengths.sharedPrefixTokens": 600,
            "spec.objectives.1": {**SECOND, "name": "batch", "load": {"concurrency": 64}},
            "spec.parallelism.tensor": 8,
            "spec.scaling.mode": "Manual",
            "spec.scaling.replicas": 2,
            "spec.engine.image": "registry.example.com:5000/team/worker:1.2@sha256:" + "a" * 64,
            "spec.engine.installationClaimName": "vllm",
            "spec.engine.args": {"max-num-seqs": 64, "gpu-memory-utilization": "0.9", "enforce-eager": "true"},
            "spec.engine.env": [{"name": "OMP_NUM_THREADS", "value": "1"}, {"name": "NCCL_DEBUG"}],
            "spec.placement.nodeSelector": {"example.com/pool": "models", "zone": ""},
            "spec.placement.tolerations": [
                {"key": "gpu", "operator": "Exists"},
                {"key": "gpu", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60},
                {"operator": "Exists"},
            ],
            "spec.placement.priorityClassName": "serving",
            "spec.placement.spread": "None",
            "spec.imagePullSecrets": [{"name": "registry"}],
        },
    ),
    Good("a field that is null is a field that is not there", {"spec.model.maxContextTokens": None}),
    Good("a share as a whole number", {f"{OBJECTIVE}.share": 95}),
    Good("a load with a fraction", {f"{OBJECTIVE}.load.requestsPerSecond": "0.5"}),
    Good("a duration of several units", {f"{OBJECTIVE}.ttft": "1m30s500ms"}),
    Good("the root of a claim", {"spec.model.source": "pvc://weights"}),
    Good("a dot in a model's folder", {"spec.model.source": "pvc://weights/llama-3.1..b/v1.0/"}),
    Good("a switch with an empty value", {"spec.engine.args": {"enforce-eager": ""}}),
    Good("a name of 63 characters", {"metadata.name": "a" * 63}),
    Good("a whole number with a decimal point", {"spec.parallelism.tensor": 2.0}),
    Good("a class", base=CLASS),
    Good(
        "a class with everything set",
        {
            "spec.device": "Cpu",
            "spec.hostPerAccelerator": {"cpu": "500m", "memory": "128Gi"},
            "spec.tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        CLASS,
    ),
    Good("quantities as numbers", {"spec.hostPerAccelerator": {"cpu": 12, "memory": 137438953472}}, CLASS),
    Good("a quantity with an exponent", {"spec.hostPerAccelerator": {"cpu": "1.5", "memory": "128e9"}}, CLASS),
    *ENGINE_GOOD,
    *CLASS_GOOD,
    *PLANNER_GOOD,
    *SCALING_GOOD,
    *SESSION_GOOD,
    *TO_ZERO_GOOD,
    *WEIGHT_GOOD,
    *ROLLOUT_GOOD,
)

_FIELDS = (
    Bad(
        "no source",
        {"spec.model": {}},
        "spec.model.source",
        "is required: Where the weights are: hf://ORG/REPO@REVISION, s3://BUCKET/PREFIX,"
        " oci://REGISTRY/REPOSITORY:TAG (fetched), pvc://CLAIM/PATH (a PersistentVolumeClaim in this namespace), or"
        " file:///PATH (a folder of the node, where the operator's settings allow it)",
        server="spec.model.source: Required value",
    ),
    Bad(
        "no ttft",
        {f"{OBJECTIVE}.ttft": ABSENT},
        f"{AT}.ttft",
        "an objective needs ttft, the time to the first token, such as 500ms",
    ),
    Bad(
        "no tpot",
        {f"{OBJECTIVE}.tpot": ABSENT},
        f"{AT}.tpot",
        "an objective needs tpot, the time per output token, such as 50ms",
    ),
    Bad(
        "no load",
        {f"{OBJECTIVE}.load": ABSENT},
        f"{AT}.load",
        "an objective needs the load that it holds for, such as {requestsPerSecond: 12} or {concurrency: 64}",
    ),
    Bad(
        "no lengths",
        {f"{OBJECTIVE}.lengths": ABSENT},
        f"{AT}.lengths",
        "an objective needs the lengths that it holds for, such as"
        " {inputTokens: {p50: 900, p95: 4000}, outputTokens: {p50: 250, p95: 800}}",
    ),
    Bad(
        "an end-to-end latency instead of a promise",
        {OBJECTIVE: {"name": "interactive", "e2eLatency": "5s"}},
        f"{AT}.e2eLatency",
        END_TO_END,
    ),
    Bad("an end-to-end latency besides", {f"{OBJECTIVE}.e2eLatency": "5s"}, f"{AT}.e2eLatency", END_TO_END),
    Bad(
        "a load in two ways",
        {f"{OBJECTIVE}.load.concurrency": 4},
        f"{AT}.load",
        "a load is exactly one of requestsPerSecond and concurrency",
    ),
    Bad(
        "a load in no way",
        {f"{OBJECTIVE}.load": {}},
        f"{AT}.load",
        "a load is exactly one of requestsPerSecond and concurrency",
    ),
    Bad(
        "prompts with p50 above p95",
        {f"{OBJECTIVE}.lengths.inputTokens.p50": 5000},
        f"{AT}.lengths.inputTokens.p50",
        "p50 must not be above p95",
    ),
    Bad(
        "prompts with p95 above max",
        {f"{OBJECTIVE}.lengths.inputTokens.max": 3999},
        f"{AT}.lengths.inputTokens.p95",
        "p95 must not be above max",
    ),
    Bad(
        "answers with p50 above p95",
        {f"{OBJECTIVE}.lengths.outputTokens.p50": 801},
        f"{AT}.lengths.outputTokens.p50",
        "p50 must not be above p95",
    ),
    Bad(
        "a prefix longer than prompts",
        {f"{OBJECTIVE}.lengths.sharedPrefixTokens": 4001},
        f"{AT}.lengths.sharedPrefixTokens",
        "sharedPrefixTokens must not be above inputTokens.p95: the prefix is a part of the prompt",
    ),
    Bad(
        "prompts longer than the context",
        {"spec.model.maxContextTokens": 2048},
        "spec.objectives",
        "an objective's inputTokens.max (without it p95) must not be above model.maxContextTokens: such a prompt is"
        " refused",
    ),
    Bad(
        "bounds the wrong way round",
        {"spec.scaling.minReplicas": 5},
        "spec.scaling.maxReplicas",
        "maxReplicas must not be below minReplicas",
    ),
    Bad("a name that no Service can have", {"metadata.name": "1chat"}, "metadata.name", NAME, server=NAME),
    Bad("a name that is too long", {"metadata.name": "a" * 64}, "metadata.name", NAME, server=NAME),
    Bad(
        "no objective",
        {"spec.objectives": []},
        "spec.objectives",
        "must have at least 1 of them",
        server="spec.objectives in body should have at least 1 items",
    ),
    Bad(
        "a number in quotes",
        {"spec.scaling.minReplicas": "1"},
        "spec.scaling.minReplicas",
        'must be a whole number without quotes, not "1"',
        server="must be of type integer",
    ),
    Bad(
        "a tensor of nothing",
        {"spec.parallelism.tensor": 0},
        "spec.parallelism.tensor",
        "must be at least 1",
        server="should be greater than or equal to 1",
    ),
    Bad(
        "a mode that is none",
        {"spec.scaling.mode": "Auto"},
        "spec.scaling.mode",
        "must be one of 'Active', 'Advisory' or 'Manual'",
        server='supported values: "Active", "Advisory", "Manual"',
    ),
    Bad(
        "more classes than eight",
        {"spec.accelerators.classes": [f"class-{number}" for number in range(9)]},
        "spec.accelerators.classes",
        "must have at most 8 of them",
        server="must have at most 8 items",
    ),
    Bad(
        "a list where a map belongs",
        {"spec.scaling": []},
        "spec.scaling",
        "must be a map of fields, not a list",
        server="must be of type object",
    ),
    Bad(
        "a class without labels",
        {"spec.nodeSelector": {}},
        "spec.nodeSelector",
        "must have at least 1 of them",
        server="should have at least 1 properties",
        base=CLASS,
    ),
    Bad(
        "a field with a slip",
        {"spec.model.servedName": ["chat"]},
        "spec.model.servedName",
        "unknown field, did you mean servedNames?",
        server='unknown field "spec.model.servedName"',
    ),
    Bad(
        "a field in the wrong place",
        {"spec.minReplicas": 1},
        "spec.minReplicas",
        "unknown field here, did you mean spec.scaling.minReplicas?",
        server='unknown field "spec.minReplicas"',
    ),
    Bad(
        "a field of another version",
        {"spec.adapters": {}},
        "spec.adapters",
        "unknown field; there are model, objectives, accelerators, quantization, parallelism, scaling, speculation,"
        " sessions, engine, rollout, placement, imagePullSecrets, economics, replan",
        server='unknown field "spec.adapters"',
    ),
)

_ENGINE = (
    *(
        Bad(
            f"the flag {flag}",
            {"spec.engine.args": {flag: "1"}},
            "spec.engine.args",
            f"the flag {flag} is refused: {why}",
        )
        for flag, why in REFUSED_FLAGS.items()
    ),
    Bad(
        "a flag that nobody checked",
        {"spec.engine.args": {"swap-space": 4}},
        "spec.engine.args",
        "the flag swap-space is not in the allow-list; kubectl explain mdep.spec.engine.args shows it",
    ),
    Bad(
        "a flag with its dashes",
        {"spec.engine.args": {"--max-num-seqs": 4}},
        "spec.engine.args",
        "the flag --max-num-seqs is not in the allow-list; kubectl explain mdep.spec.engine.args shows it",
    ),
    Bad(
        "a switch with a value",
        {"spec.engine.args": {"enforce-eager": "false"}},
        "spec.engine.args",
        'a flag that is a switch takes only the value "true" or ""; to switch it off omit it or write its no- form',
    ),
    Bad(
        "a flag without its value",
        {"spec.engine.args": {"max-num-seqs": ""}},
        "spec.engine.args",
        "a flag that takes a value must have one",
    ),
    Bad(
        "a flag's value on two lines",
        {"spec.engine.args": {"dtype": "a\nb"}},
        "spec.engine.args.dtype",
        "a flag's value is an integer or a string on one line",
    ),
    Bad(
        "a flag's value as a truth value",
        {"spec.engine.args": {"enforce-eager": True}},
        "spec.engine.args.enforce-eager",
        "a flag's value is an integer or a string on one line",
        server="must be of type",
    ),
    Bad(
        "a variable that nobody checked",
        {"spec.engine.env": [{"name": "LD_PRELOAD", "value": "x"}]},
        "spec.engine.env[0].name",
        "not a variable of the allow-list; kubectl explain mdep.spec.engine.env.name shows it",
    ),
    Bad(
        "a variable on two lines",
        {"spec.engine.env": [{"name": "NCCL_DEBUG", "value": "a\nb"}]},
        "spec.engine.env[0].value",
        'a variable\'s value is a string on one line; write a number in quotes, such as "1"',
    ),
    Bad(
        "a toleration of nothing",
        {"spec.placement.tolerations": [{"effect": "NoSchedule"}]},
        "spec.placement.tolerations[0].operator",
        "a toleration without key needs operator Exists",
    ),
    Bad(
        "a toleration of a value that is not compared",
        {"spec.placement.tolerations": [{"key": "gpu", "operator": "Exists", "value": "yes"}]},
        "spec.placement.tolerations[0].value",
        "a toleration with operator Exists takes no value",
    ),
    Bad(
        "a toleration with a time that never comes",
        {"spec.tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}]},
        "spec.tolerations[0].tolerationSeconds",
        "tolerationSeconds needs effect NoExecute",
        base=CLASS,
    ),
)

BAD = (
    VALUES
    + _FIELDS
    + _ENGINE
    + ENGINE_BAD
    + CLASS_BAD
    + PLANNER_BAD
    + ROLLOUT_BAD
    + SCALING_BAD
    + SESSION_BAD
    + TO_ZERO_BAD
    + WEIGHT_BAD
)
