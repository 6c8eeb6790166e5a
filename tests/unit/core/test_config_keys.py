"""The worker hands over every key of a config.json that the model facts are made from."""

import ast
from pathlib import Path

from modelfleet.api import config_keys
from modelfleet.core import model

FOLDER = Path(model.__file__).parent
READERS = {"size", "flag", "text", "number", "strings", "numbers", "has", "inner"}
HANDED_OVER = (
    config_keys.SIZES
    | config_keys.PARTS
    | config_keys.QUANTIZATION
    | config_keys.STORAGE
    | config_keys.STORAGE_PARTS
    | config_keys.KEPT_WIDE
)


def read_keys() -> set[str]:
    """Every key that core.model reads by name, and those that it chooses among."""
    found: set[str] = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS:
                for argument in node.args:
                    found |= {
                        part.value
                        for part in ast.walk(argument)
                        if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    }
    return found


def test_every_key_that_is_read_is_handed_over():
    assert read_keys() - HANDED_OVER == set()
    assert len(read_keys()) > 50, "the keys are read in another way now"


def test_no_key_is_handed_over_that_nobody_reads():
    text = "".join(path.read_text() for path in FOLDER.glob("*.py"))
    assert [key for key in sorted(HANDED_OVER) if f'"{key}"' not in text] == []
