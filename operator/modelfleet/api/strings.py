"""Names, references and other strings that have a form, and the sentence for each that has not. Pure."""

import re
from collections.abc import Set

from modelfleet.api.engine_options import ENV_NAMES
from modelfleet.api.values import Clause, Value, matches


def _in_format(name: str, pattern: str, message: str) -> Clause:
    """The clause that a string is in a format of Kubernetes' own CEL library; Python needs its pattern."""
    return Clause(
        f"!format.{name}().validate(self).hasValue()", lambda text: re.fullmatch(pattern, text) is not None, message
    )


def _one_of(allowed: Set[str], message: str) -> Clause:
    listed = ", ".join(f"'{each}'" for each in sorted(allowed))
    return Clause(f"self in [{listed}]", allowed.__contains__, message)


_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_QUALIFIED = rf"({SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"


class DnsLabel(Value):
    """A lower-case DNS label."""

    __slots__ = ()
    max_length = 63
    clauses = (
        _in_format(
            "dns1123Label",
            _LABEL,
            "a name is lower-case letters, digits and '-', and begins and ends with a letter or digit",
        ),
    )


class ObjectName(Value):
    """The name of another object: a lower-case DNS subdomain."""

    __slots__ = ()
    max_length = 253
    clauses = (
        _in_format(
            "dns1123Subdomain",
            SUBDOMAIN,
            "an object's name is lower-case letters, digits, '-' and '.', and begins and ends with a letter or digit",
        ),
    )


class DeviceClassName(ObjectName):
    """The name of a DeviceClass, as short as the name of a resource, which stands for it."""

    __slots__ = ()
    max_length = 63


class QualifiedName(Value):
    """A label's or a resource's name: `example.com/gpu` or `gpu`."""

    __slots__ = ()
    max_length = 316
    clauses = (
        _in_format("qualifiedName", _QUALIFIED, "a qualified name is NAME or DOMAIN/NAME, such as nvidia.com/gpu"),
    )


class LabelValue(Value):
    """A label's value; may be empty."""

    __slots__ = ()
    max_length = 63
    clauses = (
        _in_format(
            "labelValue",
            r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
            "a label's value is letters, digits, '-', '_' and '.', and begins and ends with a letter or digit",
        ),
    )


class ServedName(Value):
    """A model name that clients send in a request."""

    __slots__ = ()
    max_length = 128
    clauses = (
        matches(
            "[A-Za-z0-9][A-Za-z0-9._:/@+-]*",
            "a served name begins with a letter or digit and has no spaces, such as support-chat",
        ),
    )


class ImageName(Value):
    """The name of a container image."""

    __slots__ = ()
    max_length = 512
    clauses = (matches("[a-zA-Z0-9][a-zA-Z0-9._:/@-]*", "an image is [REGISTRY/]NAME[:TAG][@DIGEST] without spaces"),)


class EngineVersion(Value):
    """A released version of the engine, such as 0.32.1."""

    __slots__ = ()
    max_length = 32
    clauses = (
        matches(
            r"[0-9]+(\.[0-9]+){1,3}([a-z0-9.+-]*[a-z0-9])?",
            "an engine version is numbers with dots, such as 0.32.1; write it in quotes",
        ),
    )


class ComputeCapability(Value):
    """NVIDIA's compute capability, such as 9.0."""

    __slots__ = ()
    max_length = 8
    clauses = (
        matches("[0-9]{1,2}[.][0-9]", 'a compute capability is two numbers with a dot in quotes, such as "9.0"'),
    )

    @property
    def pair(self) -> tuple[int, int]:
        """Major and minor number."""
        major, _, minor = self.partition(".")
        return int(major), int(minor)


class LayoutName(Value):
    """A layout in one word: degrees of tensor, pipeline, data and expert parallelism."""

    __slots__ = ()
    max_length = 64
    clauses = (
        matches(
            "tp[1-9][0-9]{0,3}(-pp[1-9][0-9]{0,3})?(-dp[1-9][0-9]{0,3})?(-ep[1-9][0-9]{0,3})?",
            "a layout is written such as tp2, tp8-pp2 or tp4-dp4-ep16",
        ),
    )


class Currency(Value):
    """A currency by its three capital letters (ISO 4217)."""

    __slots__ = ()
    max_length = 3
    clauses = (matches("[A-Z]{3}", "a currency is three capital letters, such as USD"),)


class Reference(Value):
    """A reference that a human can follow: a path, an address or a sentence on one line."""

    __slots__ = ()
    max_length = 512
    clauses = (matches(r"[^\x00-\x1f\x7f]+", "a reference is text on one line, and not empty"),)


_ONE_LINE = r"[^\x00-\x1f\x7f]*"


class ArgValue(Value):
    """The value of an engine flag; an integer is a value too."""

    __slots__ = ()
    max_length = 1024
    whole_numbers = True
    clauses = (matches(_ONE_LINE, "a flag's value is an integer or a string on one line", "true"),)


class EnvName(Value):
    """The name of an environment variable that may be set."""

    __slots__ = ()
    max_length = 64
    clauses = (
        _one_of(ENV_NAMES, "not a variable of the allow-list; kubectl explain mdep.spec.engine.env.name shows it"),
    )


class EnvValue(Value):
    """The value of an environment variable."""

    __slots__ = ()
    max_length = 1024
    clauses = (
        matches(_ONE_LINE, 'a variable\'s value is a string on one line; write a number in quotes, such as "1"'),
    )
