"""Durations, quantities, shares, rates and names as Kubernetes users write them, with typed accessors. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class Clause:
    """One thing that a value must keep: in CEL for the API server, in Python, and in words."""

    cel: str
    holds: Callable[[str], bool]
    message: str


def matches(pattern: str, message: str) -> Clause:
    """The clause that a whole string matches `pattern` (syntax that RE2 and Python share)."""
    escaped = pattern.replace("\\", "\\\\").replace("'", "\\'")
    return Clause(
        f"string(self).matches('^({escaped})$')", lambda text: re.fullmatch(pattern, text) is not None, message
    )


class Value(str):
    """A string with a form of its own. `Value(text)` raises ValueError with the sentence that says what would work.

    `pattern` becomes the schema's pattern; `clauses` become CEL rules, so that the server says the same sentence.
    A class with `whole_numbers` also takes an integer (Kubernetes' int-or-string).
    """

    __slots__ = ()
    clauses: ClassVar[tuple[Clause, ...]]
    max_length: ClassVar[int]
    pattern: ClassVar[str | None] = None
    whole_numbers: ClassVar[bool] = False

    def __new__(cls, raw: object) -> Self:
        """Checks `raw`; a YAML number with a fraction is refused with the advice to quote it."""
        if isinstance(raw, float) and cls.whole_numbers:
            raise ValueError(f'a number with a fraction must be a string: write "{raw}" in quotes')
        if isinstance(raw, int) and not isinstance(raw, bool) and cls.whole_numbers:
            raw = cls._from_whole(raw)
        if not isinstance(raw, str):
            raise ValueError(cls.clauses[0].message)
        if len(raw) > cls.max_length:
            raise ValueError(f"at most {cls.max_length} characters")
        for clause in cls.clauses:
            if not clause.holds(raw):
                raise ValueError(clause.message)
        return super().__new__(cls, raw)

    @classmethod
    def _from_whole(cls, number: int) -> str:
        return str(number)

    @property
    def canonical(self) -> str:
        """The one spelling that all equal values share; what hashes are made of."""
        return str(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Tells pydantic to build values through the constructor."""
        return core_schema.no_info_plain_validator_function(cls, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The structural schema: type, bounds, pattern, and each clause as a CEL rule with its sentence."""
        kind: dict[str, Any] = {"x-kubernetes-int-or-string": True} if cls.whole_numbers else {"type": "string"}
        rules = [{"rule": clause.cel, "message": clause.message} for clause in cls.clauses]
        return (
            kind
            | {"maxLength": cls.max_length, "x-kubernetes-validations": rules}
            | ({"pattern": cls.pattern} if cls.pattern else {})
        )


_DURATION = r"([0-9]{1,5}(h|m|s|ms)){1,4}"
_UNIT_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION_FORM = "a duration is whole numbers with units h, m, s or ms, such as 500ms, 30s or 1m30s"


class Duration(Value):
    """A duration by Gateway API's GEP-2257."""

    __slots__ = ()
    max_length = 32
    pattern = f"^{_DURATION}$"
    clauses: ClassVar[tuple[Clause, ...]] = (matches(_DURATION, _DURATION_FORM),)

    @property
    def milliseconds(self) -> int:
        """The duration in milliseconds, exact."""
        return sum(int(number) * _UNIT_MS[unit] for number, unit in re.findall(r"([0-9]+)(ms|h|m|s)", self))

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.milliseconds / 1000

    @property
    def canonical(self) -> str:
        """Largest units first: 90s is 1m30s, 60s is 1m, nothing is 0s."""
        rest, parts = self.milliseconds, []
        for unit, size in _UNIT_MS.items():
            number, rest = divmod(rest, size)
            parts += [f"{number}{unit}"] if number else []
        return "".join(parts) or "0s"


class PositiveDuration(Duration):
    """A duration above zero."""

    __slots__ = ()
    clauses = (
        *Duration.clauses,
        Clause(
            f"!self.matches('^{_DURATION}$') || self.matches('[1-9]')",
            lambda text: re.search("[1-9]", text) is not None,
            "the duration must be above zero",
        ),
    )


_QUANTITY = r"[0-9]{1,18}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?"
_SCALE = {"": Fraction(1), "m": Fraction(1, 1000)}
_SCALE |= {unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P"), 1)}
_SCALE |= {unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)}


class Quantity(Value):
    """A Kubernetes quantity that is not negative: CPU (`500m`, `2`) or memory (`16Gi`, `1500M`)."""

    __slots__ = ()
    max_length = 32
    whole_numbers = True
    pattern = f"^{_QUANTITY}$"
    clauses = (matches(_QUANTITY, 'a quantity is a number with or without a unit, such as 4, "500m", 16Gi or 1500M'),)

    @property
    def exact(self) -> Fraction:
        """The number itself: bytes of memory, or CPU cores."""
        number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", self).groups()  # type: ignore[union-attr]
        return Fraction(number) * _SCALE[unit]

    @property
    def bytes(self) -> int:
        """The quantity as whole bytes, rounded up as Kubernetes does."""
        return -(-self.exact // 1)

    @property
    def millicores(self) -> int:
        """The quantity as thousandths of a CPU core, rounded up as Kubernetes does."""
        return -(-self.exact * 1000 // 1)

    @property
    def canonical(self) -> str:
        """A whole number where it is one (1Gi is 1073741824), else thousandths (1.5 is 1500m), rounded up."""
        return str(self.bytes) if self.exact.denominator == 1 else f"{self.millicores}m"


class Share(Value):
    """A share of requests in percent, between 0 and 100, both excluded; an integer is a percentage too."""

    __slots__ = ()
    max_length = 8
    whole_numbers = True
    clauses = (
        Clause(
            "type(self) == int ? (self > 0 && self < 100) : "
            "(self.matches('^[0-9]{1,2}(\\\\.[0-9]{1,4})?%$') && self.matches('[1-9]'))",
            lambda text: (
                re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,4})?%", text) is not None and bool(re.search("[1-9]", text))
            ),
            'a share is a percentage above 0% and below 100%, such as "99%" or "99.9%"',
        ),
    )

    @classmethod
    def _from_whole(cls, number: int) -> str:
        return f"{number}%"

    @property
    def fraction(self) -> Fraction:
        """The share between 0 and 1, exact."""
        return Fraction(self[:-1]) / 100

    @property
    def canonical(self) -> str:
        """Without needless zeros: 99.0% is 99%."""
        return f"{_decimal(self[:-1])}%"


class Rate(Value):
    """A number of events a second, above zero, with at most three decimals."""

    __slots__ = ()
    max_length = 12
    whole_numbers = True
    clauses = (
        Clause(
            "string(self).matches('^[0-9]{1,7}(\\\\.[0-9]{1,3})?$') && string(self).matches('[1-9]')",
            lambda text: (
                re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,3})?", text) is not None and bool(re.search("[1-9]", text))
            ),
            'a rate is a decimal number above zero, such as 12 or "0.5"',
        ),
    )

    @property
    def per_second(self) -> Fraction:
        """Events a second, exact."""
        return Fraction(self)

    @property
    def canonical(self) -> str:
        """Without needless zeros: 12.50 is 12.5."""
        return _decimal(self)


def _decimal(text: str) -> str:
    whole, _, decimals = text.partition(".")
    decimals = decimals.rstrip("0")
    return f"{int(whole)}.{decimals}" if decimals else str(int(whole))


class ArgValue(Value):
    """The value of an engine flag; an integer is a value too."""

    __slots__ = ()
    max_length = 1024
    whole_numbers = True
    clauses = (matches(r"[^\x00-\x1f\x7f]*", "a flag's value is an integer or a string on one line"),)


_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_QUALIFIED = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


class DnsLabel(Value):
    """A lower-case DNS label."""

    __slots__ = ()
    max_length = 63
    pattern = f"^{_LABEL}$"
    clauses = (
        matches(_LABEL, "a name is lower-case letters, digits and '-', and begins and ends with a letter or digit"),
    )


class ObjectName(Value):
    """The name of another object: a lower-case DNS subdomain."""

    __slots__ = ()
    max_length = 253
    pattern = f"^{_SUBDOMAIN}$"
    clauses = (
        matches(
            _SUBDOMAIN,
            "an object's name is lower-case letters, digits, '-' and '.', and begins and ends with a letter or digit",
        ),
    )


class QualifiedName(Value):
    """A label's or a resource's name: `example.com/gpu` or `gpu`."""

    __slots__ = ()
    max_length = 316
    pattern = f"^{_QUALIFIED}$"
    clauses = (matches(_QUALIFIED, "a qualified name is NAME or DOMAIN/NAME, such as nvidia.com/gpu"),)


class LabelValue(Value):
    """A label's value; may be empty."""

    __slots__ = ()
    max_length = 63
    clauses = (
        matches(
            r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
            "a label's value is letters, digits, '-', '_' and '.', and begins and ends with a letter or digit",
        ),
    )


class ServedName(Value):
    """A model name that clients send in a request."""

    __slots__ = ()
    max_length = 128
    pattern = "^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$"
    clauses = (
        matches(
            "[A-Za-z0-9][A-Za-z0-9._:/@+-]*",
            "a served name begins with a letter or digit and has no spaces, such as support-chat",
        ),
    )


class FlagName(Value):
    """An engine flag without its leading dashes."""

    __slots__ = ()
    max_length = 64
    clauses = (
        matches(
            "[a-z0-9]+(-[a-z0-9]+)*", "a flag is written without leading dashes and with '-', such as max-num-seqs"
        ),
    )


class EnvName(Value):
    """The name of an environment variable."""

    __slots__ = ()
    max_length = 64
    clauses = (matches("[A-Za-z_][A-Za-z0-9_]*", "an environment variable's name is letters, digits and '_'"),)


class EnvValue(Value):
    """The value of an environment variable."""

    __slots__ = ()
    max_length = 1024
    clauses = (
        matches(
            r"[^\x00-\x1f\x7f]*", 'a variable\'s value is a string on one line; write a number in quotes, such as "1"'
        ),
    )


class ImageName(Value):
    """The name of a container image."""

    __slots__ = ()
    max_length = 512
    clauses = (matches("[a-zA-Z0-9][a-zA-Z0-9._:/@-]*", "an image is [REGISTRY/]NAME[:TAG][@DIGEST] without spaces"),)


_SOURCE = rf"pvc://{_SUBDOMAIN}(/[A-Za-z0-9._@+=-]+)*/?"


class ModelSource(Value):
    """Where the weights are: `pvc://CLAIM/PATH`, a PersistentVolumeClaim of the same namespace and a path in it."""

    __slots__ = ()
    max_length = 1024
    clauses = (
        Clause(
            "self.startsWith('pvc://')",
            lambda text: text.startswith("pvc://"),
            "only pvc://CLAIM/PATH works in this version (hf, s3, oci and file do not yet): put the weights on a"
            " PersistentVolumeClaim in the same namespace and name it here",
        ),
        Clause(
            "!self.startsWith('pvc://') || ("
            + matches(_SOURCE, "").cel.replace("string(self)", "self")
            + " && !self.matches('/\\\\.{1,2}(/|$)'))",
            lambda text: re.fullmatch(_SOURCE, text) is not None and re.search(r"/\.{1,2}(/|$)", text) is None,
            "a source is pvc://CLAIM or pvc://CLAIM/PATH; the path has letters, digits and . _ @ + = - and no '..'",
        ),
    )

    @property
    def claim(self) -> str:
        """The name of the PersistentVolumeClaim."""
        return self.removeprefix("pvc://").partition("/")[0]

    @property
    def path(self) -> str:
        """The path inside the volume without leading or trailing slash; empty is the volume's root."""
        return self.removeprefix("pvc://").partition("/")[2].strip("/")

    @property
    def canonical(self) -> str:
        """Without a trailing slash."""
        return f"pvc://{self.claim}" + (f"/{self.path}" if self.path else "")
