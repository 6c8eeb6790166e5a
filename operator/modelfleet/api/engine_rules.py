"""The rules of spec.engine.args: known flags only, with values that the engine takes. Pure data."""

from collections.abc import Iterable
from typing import Any

from modelfleet.api.engine_flags import Form, by_form
from modelfleet.api.engine_options import REFUSED_FLAGS, SWITCHES, VALUE_FLAGS
from modelfleet.api.modeldeployment import Engine
from modelfleet.api.rule import Code, Rule, Words, quoted

_FLAGS = VALUE_FLAGS | SWITCHES | REFUSED_FLAGS.keys()
_BARE = ("", "true")


def _refuses(flag: str, why: str) -> Rule[Engine]:
    return Rule(
        f"flag-{flag}-is-refused",
        Engine,
        f"!has(self.args) || !('{flag}' in self.args)",
        lambda it: flag not in it.args,
        f"the flag {flag} is refused: {why}",
        "args",
        Code.FORBIDDEN,
    )


def _value_fits(form: Form, flags: tuple[str, ...]) -> Rule[Engine]:
    """Values that the table of flags knows. The server reads the list, not the map: that it can bound."""
    listed, ends = quoted(flags), f"^({form.pattern})$"
    return Rule(
        f"flags-take-{form.id}",
        Engine,
        f"!has(self.args) || {listed}.all(flag, !(flag in self.args)"
        f" || string(self.args[flag]).matches('{ends}') || string(self.args[flag]) in ['', 'true'])",
        lambda it: all(
            form.fits(str(it.args[flag])) or str(it.args[flag]) in _BARE for flag in flags if flag in it.args
        ),
        f"{', '.join(flags)} {'takes' if len(flags) == 1 else 'take'} {form.words}",
        "args",
    )


def _first(names: Iterable[str]) -> str:
    return min(names)


ENGINE: tuple[Rule[Any], ...] = (
    Rule(
        "flags-are-known",
        Engine,
        f"!has(self.args) || self.args.all(flag, flag in {quoted(_FLAGS)})",
        lambda it: it.args.keys() <= _FLAGS,
        Words(
            f"'the flag ' + self.args.filter(flag, !(flag in {quoted(_FLAGS)}))[0]"
            " + ' is not in the allow-list; kubectl explain mdep.spec.engine.args shows it'",
            lambda it: (
                f"the flag {_first(it.args.keys() - _FLAGS)} is not in the allow-list;"
                " kubectl explain mdep.spec.engine.args shows it"
            ),
        ),
        "args",
        Code.FORBIDDEN,
    ),
    *(_refuses(flag, why) for flag, why in REFUSED_FLAGS.items()),
    Rule(
        "switches-stand-alone",
        Engine,
        f"!has(self.args) || self.args.all(flag, !(flag in {quoted(SWITCHES)})"
        " || string(self.args[flag]) in ['', 'true'])",
        lambda it: all(value in _BARE for flag, value in it.args.items() if flag in SWITCHES),
        'a flag that is a switch takes only the value "true" or ""; to switch it off omit it or write its no- form',
        "args",
    ),
    Rule(
        "value-flags-have-values",
        Engine,
        f"!has(self.args) || self.args.all(flag, !(flag in {quoted(VALUE_FLAGS)})"
        " || !(string(self.args[flag]) in ['', 'true']))",
        lambda it: not any(value in _BARE for flag, value in it.args.items() if flag in VALUE_FLAGS),
        "a flag that takes a value must have one",
        "args",
    ),
    *(_value_fits(form, flags) for form, flags in by_form()),
)
