"""Sources of weights and how they are reached: good and bad ones, and what is said about them."""

from api_objects import CLASS, Bad, Good

SOURCE = "spec.model.source"
DIGEST = "sha256:" + "a" * 64
CACHE = {"path": "/var/lib/modelfleet/weights", "size": "500Gi"}

HUB = "a model hub's source is hf://ORG/REPO or hf://ORG/REPO@REVISION, such as hf://org/model@main"
BUCKET = (
    "an object store's source is s3://BUCKET or s3://BUCKET/PREFIX; the prefix has letters, digits and . _ @ + = - and"
    " no '..'"
)
REGISTRY = "a registry's source is oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST"
FOLDER = "a node's folder is file:///ABSOLUTE/PATH; the path has letters, digits and . _ @ + = - and no '..'"
ENDPOINT = "an endpoint is http://HOST[:PORT][/PATH] or the same with https, without credentials or a query"
ONE_SCHEME = (
    "endpoint is the server of hf:// or of s3:// sources: the source and all variants must be of that one scheme"
)
NODE_PATH = (
    "a node's path is absolute, such as /var/lib/modelfleet/weights, of letters, digits and . _ @ + = -, without '..'"
    " and a '/' last"
)
DRAFT_SOURCE = (
    "only pvc://CLAIM/PATH works here in this version: put the draft's weights on a PersistentVolumeClaim in the same"
    " namespace"
)
DRAFT = (
    "the draft must be on the claim of model.source and of all variants: one claim with models is mounted in this"
    " version"
)

WEIGHT_GOOD = (
    Good("a model hub", {SOURCE: "hf://meta-llama/Llama-3.1-8B"}),
    Good("a model hub at a request for change", {SOURCE: "hf://org/model@refs/pr/12"}),
    Good("a bucket", {SOURCE: "s3://weights"}),
    Good("a prefix of a bucket", {SOURCE: "s3://my.weights/llama/v1/"}),
    Good("a registry's tag", {SOURCE: "oci://registry.example.com:5000/models/llama:v1"}),
    Good("a registry's digest", {SOURCE: f"oci://ghcr.io/org/model@{DIGEST}"}),
    Good("a folder of the node", {SOURCE: "file:///models/llama/"}),
    Good(
        "everything about a fetch",
        {
            SOURCE: "s3://weights/llama",
            "spec.model.variants": [{"weights": "fp8", "source": "s3://weights/llama-fp8"}],
            "spec.model.endpoint": "https://minio.example.com:9000/store/",
            "spec.model.credentialsSecretRef": {"name": "minio"},
            "spec.model.cache": {"claimName": "weights"},
            "spec.model.pickledWeights": "Allow",
            "spec.model.remoteCode": "Allow",
        },
    ),
    Good("pickles on a claim", {"spec.model.pickledWeights": "Allow"}),
    Good("a node cache", {"spec.nodeCache": CACHE}, CLASS),
    Good("a node cache with an age", {"spec.nodeCache": CACHE | {"maxAge": "24h"}}, CLASS),
)

_FORMS = (
    Bad("a hub without a repository", {SOURCE: "hf://llama"}, SOURCE, HUB),
    Bad("a revision that climbs out", {SOURCE: "hf://org/model@a/../b"}, SOURCE, HUB),
    Bad("a bucket in capitals", {SOURCE: "s3://Weights/llama"}, SOURCE, BUCKET),
    Bad("a prefix that climbs out", {SOURCE: "s3://weights/../llama"}, SOURCE, BUCKET),
    Bad("a registry without a tag", {SOURCE: "oci://registry.example.com/llama"}, SOURCE, REGISTRY),
    Bad("a registry with tag and digest", {SOURCE: f"oci://ghcr.io/org/model:v1@{DIGEST}"}, SOURCE, REGISTRY),
    Bad("a folder that climbs out", {SOURCE: "file:///models/../etc"}, SOURCE, FOLDER),
    Bad("the root of the node", {SOURCE: "file:///"}, SOURCE, FOLDER),
    Bad(
        "an endpoint with a password",
        {SOURCE: "s3://weights/llama", "spec.model.endpoint": "https://user:word@minio.example.com"},
        "spec.model.endpoint",
        ENDPOINT,
    ),
    Bad(
        "an endpoint that is a file",
        {SOURCE: "s3://weights/llama", "spec.model.endpoint": "file:///etc/passwd"},
        "spec.model.endpoint",
        ENDPOINT,
    ),
    Bad(
        "a cache at a relative path",
        {"spec.nodeCache": CACHE | {"path": "weights"}},
        "spec.nodeCache.path",
        NODE_PATH,
        base=CLASS,
    ),
    Bad(
        "a cache that climbs out",
        {"spec.nodeCache": CACHE | {"path": "/var/../etc"}},
        "spec.nodeCache.path",
        NODE_PATH,
        base=CLASS,
    ),
    Bad(
        "a cache of nothing",
        {"spec.nodeCache": CACHE | {"size": 0}},
        "spec.nodeCache.size",
        "the quantity must be above zero",
        base=CLASS,
    ),
    Bad(
        "a cache for no time",
        {"spec.nodeCache": CACHE | {"maxAge": "0s"}},
        "spec.nodeCache.maxAge",
        "the duration must be above zero",
        base=CLASS,
    ),
    Bad(
        "remote code as a truth value",
        {"spec.model.remoteCode": True},
        "spec.model.remoteCode",
        "must be one of 'Refuse' or 'Allow'",
        server="spec.model.remoteCode",
    ),
    Bad(
        "pickles by another word",
        {"spec.model.pickledWeights": "Yes"},
        "spec.model.pickledWeights",
        "must be one of 'Refuse' or 'Allow'",
        server='supported values: "Refuse", "Allow"',
    ),
)

_TOGETHER = (
    Bad("an endpoint for a claim", {"spec.model.endpoint": "https://example.com"}, "spec.model.endpoint", ONE_SCHEME),
    Bad(
        "an endpoint for two schemes",
        {
            SOURCE: "s3://weights/llama",
            "spec.model.variants": [{"weights": "fp8", "source": "hf://org/model-fp8"}],
            "spec.model.endpoint": "https://example.com",
        },
        "spec.model.endpoint",
        ONE_SCHEME,
    ),
    Bad(
        "credentials for a claim",
        {"spec.model.credentialsSecretRef": {"name": "token"}},
        "spec.model.credentialsSecretRef",
        "credentialsSecretRef is for sources that are fetched (hf, s3, oci): leave it out",
    ),
    Bad(
        "a cache for a claim",
        {"spec.model.cache": {"claimName": "weights"}},
        "spec.model.cache",
        "cache is for sources that are fetched (hf, s3, oci): leave it out",
    ),
    Bad(
        "a draft from a hub",
        {"spec.speculation": {"method": "eagle3", "model": "hf://org/draft"}},
        "spec.speculation.model",
        DRAFT_SOURCE,
    ),
    Bad(
        "a draft beside a fetched model",
        {SOURCE: "hf://org/model", "spec.speculation": {"method": "eagle3", "model": "pvc://weights/draft"}},
        "spec.speculation.model",
        DRAFT,
    ),
)

WEIGHT_BAD = (*_FORMS, *_TOGETHER)
