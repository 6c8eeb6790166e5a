"""Where weights can be: `hf://`, `s3://`, `oci://`, `pvc://` and `file://`, each with its form and sentence. Pure."""

import re
from enum import StrEnum

from modelfleet.api.strings import SUBDOMAIN
from modelfleet.api.values import Clause, Value, matches


class Scheme(StrEnum):
    """What kind of place a source is."""

    HF = "hf"
    S3 = "s3"
    OCI = "oci"
    PVC = "pvc"
    FILE = "file"


_SEGMENT = r"/[A-Za-z0-9._@+=-]+"
_REPOSITORY = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_REVISION = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}"
_HOST = r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*(:[0-9]{1,5})?"
_DIGEST = "sha256:[0-9a-f]{64}"
_FORMS = {
    Scheme.PVC: rf"pvc://{SUBDOMAIN}({_SEGMENT})*/?",
    Scheme.HF: rf"hf://{_REPOSITORY}/{_REPOSITORY}(@{_REVISION})?",
    Scheme.S3: rf"s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9]({_SEGMENT})*/?",
    Scheme.OCI: rf"oci://{_HOST}(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}}|@{_DIGEST})",
    Scheme.FILE: rf"file://({_SEGMENT})+/?",
}
_SENTENCES = {
    Scheme.PVC: "a source is pvc://CLAIM or pvc://CLAIM/PATH; the path has letters, digits and . _ @ + = - and no '..'",
    Scheme.HF: "a model hub's source is hf://ORG/REPO or hf://ORG/REPO@REVISION, such as hf://org/model@main",
    Scheme.S3: "an object store's source is s3://BUCKET or s3://BUCKET/PREFIX; the prefix has letters, digits and"
    " . _ @ + = - and no '..'",
    Scheme.OCI: "a registry's source is oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST",
    Scheme.FILE: "a node's folder is file:///ABSOLUTE/PATH; the path has letters, digits and . _ @ + = - and no '..'",
}
_DOTS = r"/\.{1,2}(/|$)"
_NO_DOTS = r"!self.matches('/\\.{1,2}(/|$)')"
_ANY = "^(" + "|".join(Scheme) + ")://"
SCHEMES = (
    "a source is hf://ORG/REPO@REVISION, s3://BUCKET/PREFIX, oci://REGISTRY/REPOSITORY:TAG, pvc://CLAIM/PATH or"
    " file:///PATH"
)


def _form(scheme: Scheme) -> Clause:
    """Holds for every other scheme, so that one fault gets one sentence."""
    return Clause(
        f"!self.startsWith('{scheme}://') || ({matches(_FORMS[scheme], '').cel} && {_NO_DOTS})",
        lambda text: (
            not text.startswith(f"{scheme}://")
            or (re.fullmatch(_FORMS[scheme], text) is not None and re.search(_DOTS, text) is None)
        ),
        _SENTENCES[scheme],
    )


class ModelSource(Value):
    """Where the weights are: a model hub, an object store, a registry, a claim of the same namespace, a node's
    folder."""

    __slots__ = ()
    max_length = 1024
    clauses = (
        Clause(f"self.matches('{_ANY}')", lambda text: re.match(_ANY, text) is not None, SCHEMES),
        *(_form(scheme) for scheme in _FORMS),
    )

    @property
    def scheme(self) -> Scheme:
        """What kind of place it is."""
        return Scheme(self.partition("://")[0])

    @property
    def is_fetched(self) -> bool:
        """Whether the weights are fetched from a server before they can be read."""
        return self.scheme in (Scheme.HF, Scheme.S3, Scheme.OCI)

    @property
    def claim(self) -> str:
        """The name of the PersistentVolumeClaim; empty for other schemes."""
        return self._rest.partition("/")[0] if self.scheme is Scheme.PVC else ""

    @property
    def path(self) -> str:
        """The path inside the claim without leading or trailing slash (empty is its root), or a node's absolute
        path; empty for other schemes."""
        if self.scheme is Scheme.FILE:
            return "/" + self._rest.strip("/")
        return self._rest.partition("/")[2].strip("/") if self.scheme is Scheme.PVC else ""

    @property
    def location(self) -> str:
        """What of a fetched source is the same at every revision: ORG/REPO, BUCKET/PREFIX, REGISTRY/REPOSITORY."""
        if self.scheme is Scheme.HF:
            return self._rest.partition("@")[0]
        if self.scheme is Scheme.OCI:
            name = self._rest.partition("@")[0]
            head, _, tail = name.rpartition("/")
            return f"{head}/{tail.partition(':')[0]}"
        return self._rest.rstrip("/")

    @property
    def revision(self) -> str:
        """The revision that is written: a branch, tag or commit of a hub, a tag or digest of a registry; else empty."""
        if self.scheme is Scheme.HF:
            return self._rest.partition("@")[2] or "main"
        if self.scheme is Scheme.OCI:
            return self._rest[len(self.location) + 1 :]
        return ""

    @property
    def pin(self) -> str:
        """The revision where it can never mean other bytes (a whole commit, a digest); else empty."""
        fixed = {Scheme.HF: "[0-9a-f]{40}", Scheme.OCI: _DIGEST}.get(self.scheme)
        return self.revision if fixed and re.fullmatch(fixed, self.revision) else ""

    @property
    def canonical(self) -> str:
        """Without a trailing slash, and with a hub's default revision."""
        if self.scheme is Scheme.HF:
            return f"hf://{self.location}@{self.revision}"
        return self.rstrip("/") if self.scheme in (Scheme.PVC, Scheme.S3, Scheme.FILE) else str(self)

    @property
    def _rest(self) -> str:
        return self.partition("://")[2]


class ClaimSource(ModelSource):
    """Weights on a PersistentVolumeClaim of the same namespace: pvc://CLAIM/PATH."""

    __slots__ = ()
    clauses = (
        Clause(
            "self.startsWith('pvc://')",
            lambda text: text.startswith("pvc://"),
            "only pvc://CLAIM/PATH works here in this version: put the draft's weights on a PersistentVolumeClaim in"
            " the same namespace",
        ),
        _form(Scheme.PVC),
    )


class Endpoint(Value):
    """The address of a server that speaks the protocol of a model hub or of S3."""

    __slots__ = ()
    max_length = 512
    clauses = (
        matches(
            rf"https?://{_HOST}({_SEGMENT})*/?",
            "an endpoint is http://HOST[:PORT][/PATH] or the same with https, without credentials or a query",
        ),
    )

    @property
    def canonical(self) -> str:
        """Without a trailing slash."""
        return self.rstrip("/")


class NodePath(Value):
    """An absolute path on a node."""

    __slots__ = ()
    max_length = 512
    clauses = (
        Clause(
            f"{matches(f'({_SEGMENT})+', '').cel} && {_NO_DOTS}",
            lambda text: re.fullmatch(f"({_SEGMENT})+", text) is not None and re.search(_DOTS, text) is None,
            "a node's path is absolute, such as /var/lib/modelfleet/weights, of letters, digits and . _ @ + = -"
            ", without '..' and a '/' last",
        ),
    )
