"""`modelfleet catalog`, as a user runs it."""

import json
from decimal import Decimal

import pytest
import yaml

from cli_tables import Captured
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.parse import parse_class
from modelfleet.cli.catalog import manifest
from modelfleet.cli.main import main
from modelfleet.core.catalog import CATALOG


def catalog(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    status = main(["catalog", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_table_has_a_line_for_each_accelerator(capsys: Captured):
    status, out, _ = catalog(capsys)
    header, *rows = out.splitlines()
    assert status == 0
    assert header.split()[:3] == ["name", "accelerator", "memory"]
    assert [row.split()[0] for row in rows] == list(CATALOG)


def test_a_name_shows_every_fact_with_its_source(capsys: Captured):
    _, out, _ = catalog(capsys, "h100-sxm")
    assert out.startswith("h100-sxm: H100 SXM5 80GB (nvidia, hopper)\n  memory ")
    for fact, source in CATALOG["h100-sxm"].sources.items():
        assert f"  source of {fact}: {source}\n" in out


def test_json_has_every_fact_with_its_source(capsys: Captured):
    entries = json.loads(catalog(capsys, "-o", "json")[1])
    assert [entry["name"] for entry in entries] == list(CATALOG)
    for entry in entries:
        assert entry["memoryBytes"] == CATALOG[entry["name"]].hardware.memory_bytes
        assert entry["sources"]


def test_yaml_has_one_class_for_each_accelerator(capsys: Captured):
    documents = list(yaml.safe_load_all(catalog(capsys, "-o", "yaml")[1]))
    assert [document["metadata"]["name"] for document in documents] == list(CATALOG)
    assert documents == [manifest(entry) for entry in CATALOG.values()]


@pytest.mark.parametrize("name", CATALOG)
def test_a_class_of_the_catalogue_keeps_the_rules_of_the_api(name):
    parsed = parse_class(manifest(CATALOG[name]))
    assert isinstance(parsed, AcceleratorClass), parsed


def test_a_price_is_exact_text(capsys: Captured):
    (supply,) = yaml.safe_load(catalog(capsys, "l4", "-o", "yaml")[1])["spec"]["supplies"]
    assert Decimal(supply["pricePerAcceleratorHour"]) == CATALOG["l4"].hardware.price_per_hour


def test_nodes_that_no_labeller_marks_are_selected_by_a_label_of_our_own(capsys: Captured):
    spec = yaml.safe_load(catalog(capsys, "b60", "-o", "yaml")[1])["spec"]
    assert spec["nodeSelector"] == {"modelfleet.dev/accelerator": "b60"}


def test_a_name_with_a_slip_gets_the_nearest_ones(capsys: Captured):
    status, out, err = catalog(capsys, "h100-sxn")
    assert (status, out) == (2, "")
    assert "'h100-sxn' is not in the catalogue; did you mean h100-sxm" in err
