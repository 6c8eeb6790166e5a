"""The operator's flags and variables."""

from pathlib import Path

import pytest

from modelfleet.controller.main import main
from modelfleet.controller.metrics.settings import SamplesFrom, SamplingSettings, Server
from modelfleet.controller.options import Lease, OptionsError, parse

IMAGE = "--worker-image=worker:1"
POD = {"POD_NAMESPACE": "system", "POD_NAME": "operator-1"}


def test_the_image_is_enough():
    options = parse([IMAGE], POD)
    assert (options.settings.worker_image, options.namespaces, options.metrics_port) == ("worker:1", (), 8080)


def test_a_flag_beats_its_variable_and_a_variable_its_default():
    variables = {"MODELFLEET_WORKER_IMAGE": "worker:2", "MODELFLEET_DRAIN_SECONDS": "7", "MODELFLEET_WORKERS": "3"}
    options = parse(["--workers=5"], variables | POD)
    assert (options.settings.worker_image, options.settings.drain_s, options.workers) == ("worker:2", 7.0, 5)


def test_namespaces_are_separated_by_commas():
    assert parse([IMAGE, "--namespaces=a, b,"], POD).namespaces == ("a", "b")


@pytest.mark.parametrize(
    ("arguments", "variables", "lease"),
    [
        pytest.param(
            [], POD, Lease(namespace="system", name="modelfleet-operator", holder="operator-1"), id="in a pod"
        ),
        pytest.param(
            ["--lease-namespace=a", "--lease-name=b"],
            POD,
            Lease(namespace="a", name="b", holder="operator-1"),
            id="flags",
        ),
        pytest.param(
            ["--lease-namespace=a", "--lease-name=b"], {}, Lease(namespace="a", name="b", holder=""), id="no pod"
        ),
        pytest.param(["--leader-elect=false"], {}, None, id="off"),
    ],
)
def test_the_lease_is_in_the_pod_s_namespace_unless_a_flag_says_another(arguments, variables, lease):
    assert parse([IMAGE, *arguments], variables).lease == lease


@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"),
    [
        pytest.param([], {}, "the worker image is not known", id="no image"),
        pytest.param([IMAGE], {}, "give --lease-namespace or set POD_NAMESPACE", id="no place for the Lease"),
        pytest.param([IMAGE, "--lease-name="], POD, "the Lease's name is empty", id="a Lease without a name"),
        pytest.param([IMAGE, "--leader-elect=no"], {}, "must be one of true, false, not 'no'", id="a truth"),
        pytest.param([IMAGE, "--metrics-port=http"], {}, "from 0 to 65535, not 'http'", id="a port that is no number"),
        pytest.param([IMAGE, "--metrics-port=70000"], {}, "from 0 to 65535, not '70000'", id="a port that is too high"),
        pytest.param([IMAGE, "--drain-seconds=-1"], {}, "from 0 to 86400, not '-1'", id="a negative time"),
        pytest.param([IMAGE, "--drain-seconds=nan"], {}, "from 0 to 86400, not 'nan'", id="a time that is no number"),
        pytest.param([IMAGE, "--log-level=loud"], {}, "must be one of debug, info, warning, error", id="a level"),
        pytest.param([IMAGE, "--worker-imag=x"], {}, "unrecognized arguments: --worker-imag=x", id="a mistyped flag"),
        pytest.param(
            [IMAGE, "--samples-from=Prometheus"],
            POD,
            "a Prometheus whose address is not known: give --prometheus-url",
            id="a source without an address",
        ),
        pytest.param(
            [IMAGE, "--prometheus-url=prometheus:9090"],
            POD,
            "must be an address such as http://prometheus.monitoring:9090, not 'prometheus:9090'",
            id="an address without a scheme",
        ),
        pytest.param([IMAGE], {"MODELFLEET_WORKERS": "many"}, "--workers: must be a whole number", id="a variable"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_says_how_to_get_help(arguments, variables, sentence):
    with pytest.raises(OptionsError) as caught:
        parse(arguments, variables)
    assert sentence in str(caught.value)
    assert str(caught.value).endswith("see modelfleet-operator --help")
    assert "\n" not in str(caught.value)


def test_a_wrong_flag_ends_the_process_with_status_2_and_its_sentence(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--workers=none", IMAGE])
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_samples_come_from_workers_unless_a_prometheus_is_named() -> None:
    assert parse([IMAGE], POD).sampling == SamplingSettings()
    flags = ["--samples-from=Prometheus", "--prometheus-url=https://p:9090", "--prometheus-token-file=/t/token"]
    server = Server(url="https://p:9090", token=Path("/t/token"))
    expected = SamplingSettings(source=SamplesFrom.PROMETHEUS, interval_s=2.5, prometheus=server)
    assert parse([IMAGE, *flags, "--samples-interval-seconds=2.5"], POD).sampling == expected
