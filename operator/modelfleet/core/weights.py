"""Where a plan's weights come from and are kept, and what they are pinned to. Pure.

| source | kept |
| --- | --- |
| pvc:// | where they are |
| file:// | where they are, a folder of the node below a prefix that the operator's settings allow |
| hf, s3, oci | on spec.model.cache's claim, else in the class's node cache, else each pod for itself |

A branch, a tag and a bucket may change. So what is fetched is pinned when the plan is made: to a commit, a manifest's
digest, or the digest of a listing. The Job that reads the model brings it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.model import Model, RemoteCode
from modelfleet.api.sources import ModelSource, Scheme
from modelfleet.core.plan import Place, Plan, Weights
from modelfleet.core.snapshot import Settings


@dataclass(frozen=True)
class Chosen:
    """The source of a plan, and the revisions that fetched sources are pinned to, by canonical source."""

    source: ModelSource
    revisions: Mapping[str, str] = field(default_factory=dict)


def weights_of(model: Model, chosen: Chosen, kind: AcceleratorClass, settings: Settings) -> Weights | None:
    """The plan's weights; None for a folder of a claim."""
    source = chosen.source
    if source.scheme is Scheme.PVC:
        return None
    if source.scheme is Scheme.FILE:
        prefix = allowed_prefix(source, settings) or source.path
        rest = source.path.removeprefix(prefix).strip("/")
        return Weights(source=source.canonical, place=Place.FOLDER, node_path=prefix, path=rest)
    of = Weights(
        source=source.canonical,
        revision=chosen.revisions.get(source.canonical) or source.pin,
        endpoint=model.endpoint.canonical if model.endpoint else "",
        secret=str(model.credentials_secret_ref.name) if model.credentials_secret_ref else "",
        code=model.remote_code is RemoteCode.ALLOW,
        place=Place.POD,
    )
    granted = kind.spec.node_cache
    if model.cache is not None:
        return of.model_copy(update={"place": Place.CLAIM, "claim": str(model.cache.claim_name)})
    if granted is None:
        return of
    return of.model_copy(
        update={
            "place": Place.NODE,
            "node_path": str(granted.path),
            "size_bytes": granted.size.bytes,
            "max_age_s": granted.max_age.seconds,
        }
    )


def keeps_compiled(plan: Plan) -> bool:
    """Whether the code that this plan's engine compiles is kept beside its weights.

    | no | because |
    | --- | --- |
    | weights that no other pod finds | there is no folder to keep it in |
    | weights that may be pickles, and code of the model's own | what these run could write what others' engines load |
    | a replica over several nodes | each rank compiles its own part |
    | enforce-eager | nothing is compiled |
    """
    of = plan.weights
    if of is None or not of.is_shared or of.code or plan.pickled or plan.nodes > 1:
        return False
    eager = {"--enforce-eager", "--enforce-eager=true"}
    return not eager & {argument.lower() for argument in plan.engine_args}


def is_unpinned(model: Model) -> bool:
    """Whether a source may change, so that a Job has to say what it is now."""
    return any(source.is_fetched and not source.pin for source in model.sources)


def revisions(model: Model, report: Mapping[str, Any]) -> Mapping[str, str]:
    """What a report pins the fetched sources to. Raises ValueError where it lacks one."""
    told = report.get("revisions")
    listed = [text if isinstance(text, str) else "" for text in told] if isinstance(told, list) else []
    found = dict(zip((source.canonical for source in model.sources), listed, strict=False))
    found |= {source.canonical: source.pin for source in model.sources if source.pin}
    for source in model.sources:
        if source.is_fetched and not found.get(source.canonical):
            raise ValueError(f"the report does not say which revision {source.canonical} is")
    return {source.canonical: found[source.canonical] for source in model.sources if source.is_fetched}


def allowed_prefix(source: ModelSource, settings: Settings) -> str:
    """The longest folder of the settings that a file:// source is in; empty if it is in none."""
    fits = (each for each in settings.node_folders if f"{source.path}/".startswith(f"{each.rstrip('/')}/"))
    return max(fits, key=len, default="")


def refused_folder(model: Model, settings: Settings) -> str:
    """Why a file:// source may not be used; empty if none is refused."""
    for index, source in enumerate(model.sources):
        if source.scheme is Scheme.FILE and not allowed_prefix(source, settings):
            where = "spec.model.source" if index == 0 else f"spec.model.variants[{index - 1}].source"
            known = f"allowed is what is below {', '.join(settings.node_folders)}" if settings.node_folders else ""
            none = "none is allowed in this cluster; its administrator may list some (the chart's worker.nodeFolders)"
            return f"{where}: {source} is no folder of nodes that models may be read from: {known or none}"
    return ""


def kept_sentence(weights: Weights | None) -> str:
    """What the plan's summary says of it; empty where there is nothing to know."""
    if weights is None or weights.place is not Place.POD:
        return ""
    return (
        "each pod fetches the weights for itself, because spec.model.cache names no claim and the class grants no"
        " nodeCache"
    )


def subject(model: Model) -> str:
    """What a report is about, one text: the source alone, and where others are fetched, all that decides the answer."""
    if not model.is_fetched:
        return model.source.canonical
    secret = model.credentials_secret_ref
    parts = [source.canonical for source in model.sources]
    parts += [f"endpoint={model.endpoint.canonical}"] if model.endpoint else []
    parts += [f"secret={secret.name}"] if secret else []
    parts += [f"pickledWeights={model.pickled_weights}", f"remoteCode={model.remote_code}"]
    return " ".join(parts)
