"""Flags of our processes. Pure.

Every flag has an environment variable of the same name: --worker-image is MODELFLEET_WORKER_IMAGE.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import NoReturn

PREFIX = "MODELFLEET_"


class OptionsError(Exception):
    """A flag or variable is wrong; the text is one sentence."""


class Parser(argparse.ArgumentParser):
    """Refuses by OptionsError instead of an exit."""

    def error(self, message: str) -> NoReturn:
        raise OptionsError(f"{message}; see {self.prog} --help")


class Adder:
    """Adds flags, each with its variable."""

    def __init__(self, parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
        self._parser, self._environment = parser, environment

    def __call__(self, flag: str, kind: Callable[[str], object], default: str | None, text: str) -> None:
        variable = PREFIX + flag.upper().replace("-", "_")
        shown = f"{text} [{variable}]" if not default else f"{text} [{variable}, default {default}]"
        # argparse runs `type` over a default that is a string, so that a bad variable is refused like a bad flag.
        self._parser.add_argument(f"--{flag}", type=kind, default=self._environment.get(variable, default), help=shown)


def number(kind: type[int] | type[float], low: float, high: float) -> Callable[[str], float]:
    """Reads a number inside the bounds."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            whole = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {whole} from {low:g} to {high:g}, not {text!r}")
        return value

    return read


def choice(*allowed: str) -> Callable[[str], str]:
    """Reads one of some words."""

    def read(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(allowed)}, not {text!r}")
        return text

    return read
