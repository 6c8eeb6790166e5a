"""Durations, quantities, shares and rates as Kubernetes users write them, with typed accessors. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
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


def matches(pattern: str, message: str, whole: str = "") -> Clause:
    """The clause that a whole string matches `pattern`, in syntax that RE2 and Python share.

    `whole` is what CEL asks of an integer instead, where one may stand.
    """
    escaped = pattern.replace("\\", "\\\\").replace("'", "\\'")
    cel = f"self.matches('^({escaped})$')"
    cel = f"type(self) == int ? {whole} : {cel}" if whole else cel
    return Clause(cel, lambda text: re.fullmatch(pattern, text) is not None, message)


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
            f"!self.matches('^{_DURATION}$') || duration(self) > duration('0s')",
            lambda text: re.search("[1-9]", text) is not None,
            "the duration must be above zero",
        ),
    )


_QUANTITY = r"\+?([0-9]{1,18}(\.[0-9]{0,9})?|\.[0-9]{1,9})([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
_SCALE = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
_SCALE |= {unit: Fraction(1000**power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)}
_SCALE |= {unit: Fraction(1024**power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}


class Quantity(Value):
    """A Kubernetes quantity that is not negative: CPU (`500m`, `2`) or memory (`16Gi`, `1500M`)."""

    __slots__ = ()
    max_length = 32
    whole_numbers = True
    pattern = f"^{_QUANTITY}$"
    clauses: ClassVar[tuple[Clause, ...]] = (
        matches(
            _QUANTITY, 'a quantity is a number, with or without a unit, such as 4, "500m", 16Gi or 1500M', "self >= 0"
        ),
    )

    @property
    def exact(self) -> Fraction:
        """The number itself: bytes of memory, or CPU cores."""
        number = self.lstrip("+").rstrip("numkKMGTPEi")
        unit = self.lstrip("+")[len(number) :]
        return Fraction(number) * _SCALE[unit]  # Fraction reads 1., .5 and 12e6 alike

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


class PositiveQuantity(Quantity):
    """A Kubernetes quantity above zero, such as 80Gi of memory or 3350G bytes a second."""

    __slots__ = ()
    clauses = (
        *Quantity.clauses,
        Clause(
            f"type(self) == int ? self > 0 : !self.matches('^({_QUANTITY})$') || self.matches('^[^eE]*[1-9]')".replace(
                "\\", "\\\\"
            ),
            lambda text: re.search("^[^eE]*[1-9]", text) is not None,
            "the quantity must be above zero",
        ),
    )


def _above_zero(form: str, message: str, whole: str) -> Clause:
    both = f"self.matches('^{form}$') && self.matches('[1-9]')".replace("\\", "\\\\")
    return Clause(
        f"type(self) == int ? {whole} : {both}",
        lambda text: re.fullmatch(form, text) is not None and re.search("[1-9]", text) is not None,
        message,
    )


_SHARE = r"[0-9]{1,2}(\.[0-9]{1,4})?%"
_RATE = r"[0-9]{1,7}(\.[0-9]{1,3})?"


class Share(Value):
    """A share of requests in percent, between 0 and 100, both excluded; an integer is a percentage too."""

    __slots__ = ()
    max_length = 8
    whole_numbers = True
    pattern = f"^{_SHARE}$"
    clauses: ClassVar[tuple[Clause, ...]] = (
        _above_zero(
            _SHARE,
            'a share is a percentage above 0% and below 100%, such as "99%" or "99.9%"',
            "self > 0 && self < 100",
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
    pattern = f"^{_RATE}$"
    clauses = (
        _above_zero(
            _RATE,
            'a rate is a decimal number above zero, such as 12 or "0.5"',
            "self > 0 && self < 10000000",
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


_PRICE = r"[0-9]{1,7}(\.[0-9]{1,6})?"


class Price(Value):
    """An amount of money that is not negative, with at most six decimals; an integer is an amount too."""

    __slots__ = ()
    max_length = 16
    whole_numbers = True
    pattern = f"^{_PRICE}$"
    clauses = (
        matches(
            _PRICE,
            'a price is a decimal number, zero or above, such as 2 or "2.49"',
            "self >= 0 && self < 10000000",
        ),
    )

    @property
    def amount(self) -> Decimal:
        """The amount, exact."""
        return Decimal(self)

    @property
    def canonical(self) -> str:
        """Without needless zeros: 2.50 is 2.5."""
        return _decimal(self)


_FACTOR = r"[0-9]{1,2}(\.[0-9]{1,4})?"


class Factor(Value):
    """A factor between measured and predicted, above 0 and below 100; an integer is one too."""

    __slots__ = ()
    max_length = 8
    whole_numbers = True
    pattern = f"^{_FACTOR}$"
    clauses = (
        _above_zero(
            _FACTOR, 'a factor is a decimal number above 0 and below 100, such as "1.08"', "self > 0 && self < 100"
        ),
    )

    @property
    def number(self) -> float:
        """The factor."""
        return float(self)

    @property
    def canonical(self) -> str:
        """Without needless zeros: 1.50 is 1.5."""
        return _decimal(self)


def _decimal(text: str) -> str:
    whole, _, decimals = text.partition(".")
    decimals = decimals.rstrip("0")
    return f"{int(whole)}.{decimals}" if decimals else str(int(whole))
