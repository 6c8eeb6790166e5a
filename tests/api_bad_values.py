"""Values without their form, and what is said about them."""

from api_objects import AT, CLASS, OBJECTIVE, SECOND, Bad

DURATION = "a duration is whole numbers with units h, m, s or ms, such as 500ms, 30s or 1m30s"
SHARE = 'a share is a percentage above 0% and below 100%, such as "99%" or "99.9%"'
RATE = 'a rate is a decimal number above zero, such as 12 or "0.5"'
SOURCE = "a source is pvc://CLAIM or pvc://CLAIM/PATH; the path has letters, digits and . _ @ + = - and no '..'"
SCHEME = (
    "a source is hf://ORG/REPO@REVISION, s3://BUCKET/PREFIX, oci://REGISTRY/REPOSITORY:TAG, pvc://CLAIM/PATH or"
    " file:///PATH"
)
QUANTITY = 'a quantity is a number, with or without a unit, such as 4, "500m", 16Gi or 1500M'
OBJECT_NAME = "an object's name is lower-case letters, digits, '-' and '.', and begins and ends with a letter or digit"
QUALIFIED = "a qualified name is NAME or DOMAIN/NAME, such as nvidia.com/gpu"
LABEL_VALUE = "a label's value is letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
VERSION = "an engine version is numbers with dots, such as 0.32.1; write it in quotes"

VALUES = (
    Bad("a duration without a unit", {f"{OBJECTIVE}.ttft": "500"}, f"{AT}.ttft", DURATION),
    Bad("a duration with a fraction", {f"{OBJECTIVE}.ttft": "0.5s"}, f"{AT}.ttft", DURATION),
    Bad("a duration in a unit that is none", {f"{OBJECTIVE}.tpot": "50us"}, f"{AT}.tpot", DURATION),
    Bad(
        "a duration as a number",
        {f"{OBJECTIVE}.ttft": 500},
        f"{AT}.ttft",
        DURATION,
        server="must be of type string",
    ),
    Bad("a duration of nothing", {f"{OBJECTIVE}.tpot": "0s"}, f"{AT}.tpot", "the duration must be above zero"),
    Bad("a share of everything", {f"{OBJECTIVE}.share": "100%"}, f"{AT}.share", SHARE),
    Bad("a share of nothing", {f"{OBJECTIVE}.share": "0.0%"}, f"{AT}.share", SHARE),
    Bad("a share without its sign", {f"{OBJECTIVE}.share": "0.99"}, f"{AT}.share", SHARE),
    Bad("a share of 100 as a number", {f"{OBJECTIVE}.share": 100}, f"{AT}.share", SHARE),
    Bad("a rate of nothing", {f"{OBJECTIVE}.load.requestsPerSecond": 0}, f"{AT}.load.requestsPerSecond", RATE),
    Bad("a rate with a unit", {f"{OBJECTIVE}.load.requestsPerSecond": "5/s"}, f"{AT}.load.requestsPerSecond", RATE),
    Bad(
        "a rate as a number with a fraction",
        {f"{OBJECTIVE}.load.requestsPerSecond": 0.5},
        f"{AT}.load.requestsPerSecond",
        'a number with a fraction must be a string: write "0.5" in quotes',
        server="must be of type",
    ),
    Bad("a web page as source", {"spec.model.source": "https://example.com/llama"}, "spec.model.source", SCHEME),
    Bad("a source without a scheme", {"spec.model.source": "weights/llama"}, "spec.model.source", SCHEME),
    Bad("a source that climbs out", {"spec.model.source": "pvc://weights/../x"}, "spec.model.source", SOURCE),
    Bad("a source without a claim", {"spec.model.source": "pvc:///llama"}, "spec.model.source", SOURCE),
    Bad(
        "a served name with a space",
        {"spec.model.servedNames": ["my chat"]},
        "spec.model.servedNames[0]",
        "a served name begins with a letter or digit and has no spaces, such as support-chat",
    ),
    Bad(
        "a served name twice",
        {"spec.model.servedNames": ["chat", "chat"]},
        "spec.model.servedNames",
        "chat stands here twice",
        server='spec.model.servedNames[1]: Duplicate value: "chat"',
    ),
    Bad(
        "an objective's name in capitals",
        {f"{OBJECTIVE}.name": "Chat"},
        f"{AT}.name",
        "a name is lower-case letters, digits and '-', and begins and ends with a letter or digit",
    ),
    Bad(
        "an objective twice",
        {"spec.objectives.1": SECOND},
        "spec.objectives",
        "interactive stands here twice",
        server="spec.objectives[1]: Duplicate value",
    ),
    Bad("a class with a space", {"spec.accelerators.classes": ["h 100"]}, "spec.accelerators.classes[0]", OBJECT_NAME),
    Bad(
        "a label's value with a space",
        {"spec.placement.nodeSelector": {"pool": "a b"}},
        "spec.placement.nodeSelector.pool",
        LABEL_VALUE,
    ),
    Bad(
        "a label's key with a space",
        {"spec.placement.nodeSelector": {"my pool": "a"}},
        "spec.placement.nodeSelector.my pool",
        QUALIFIED,
    ),
    Bad(
        "an image with a space",
        {"spec.engine.image": "worker latest"},
        "spec.engine.image",
        "an image is [REGISTRY/]NAME[:TAG][@DIGEST] without spaces",
    ),
    Bad("a resource with a space", {"spec.resourceName": "nvidia gpu"}, "spec.resourceName", QUALIFIED, base=CLASS),
    Bad(
        "a quantity in a unit that is none",
        {"spec.hostPerAccelerator.memory": "128GB"},
        "spec.hostPerAccelerator.memory",
        QUANTITY,
        base=CLASS,
    ),
    Bad(
        "a quantity below nothing",
        {"spec.hostPerAccelerator.cpu": -1},
        "spec.hostPerAccelerator.cpu",
        QUANTITY,
        base=CLASS,
    ),
)
