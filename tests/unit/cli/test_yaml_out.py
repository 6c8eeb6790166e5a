"""YAML that is written means the same to every reader."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.cli.yaml_io import documents, dump

TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\ufeff\ufffe\uffff"), max_size=8
)
LEAF = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT


@pytest.mark.parametrize(
    "value", ["on", "Off", "y", "NO", "1:30", "012", "1_000", "1e5", "1e-05", 1e-05, 1e20, 0.1, "", "~"]
)
def test_a_value_comes_back_as_it_was_to_a_reader_of_yaml_1_1(value):
    assert yaml.safe_load(dump({str(value): value})) == {str(value): value}


@given(value=st.dictionaries(TEXT, LEAF | st.lists(LEAF, max_size=3), max_size=4))
def test_any_mapping_comes_back_as_it_was(value):
    assert next(documents(dump(value))).content == value
