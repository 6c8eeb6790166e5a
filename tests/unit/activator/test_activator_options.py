"""The activator's flags and variables, and how it says that it cannot begin."""

from pathlib import Path

import pytest

from modelfleet.activator.main import main
from modelfleet.activator.options import parse
from modelfleet.controller.flags import OptionsError
from modelfleet.core.activation.holding import Limits

POD = {"POD_NAME": "activator-a", "POD_NAMESPACE": "modelfleet-system", "POD_IP": "10.0.0.1", "NODE_NAME": "node-1"}


def test_what_the_pod_says_of_itself_makes_its_endpoint() -> None:
    read = parse([], POD)

    assert read.own is not None
    assert (read.pod, read.own.address, read.own.pod, read.own.node) == (
        "activator-a",
        "10.0.0.1",
        "activator-a",
        "node-1",
    )
    assert (read.limits, read.namespaces, read.service) == (Limits(), (), "")


def test_without_an_address_it_keeps_no_slice() -> None:
    assert parse([], {"POD_NAME": "activator-a"}).own is None


def test_a_variable_stands_for_a_flag_and_a_flag_wins() -> None:
    variables = {**POD, "MODELFLEET_HELD_REQUESTS": "7", "MODELFLEET_HELD_BYTES": "9"}
    read = parse(["--held-requests=8", "--namespaces=a, b"], variables)

    assert (read.limits.requests, read.limits.total_bytes, read.namespaces) == (8, 9, ("a", "b"))


@pytest.mark.parametrize(
    "arguments, variables, sentence",
    [
        pytest.param([], {}, "set POD_NAME", id="no name"),
        pytest.param(
            ["--service=x"], {"POD_NAME": "a"}, "--service is in the namespace that POD_NAMESPACE", id="nowhere"
        ),
        pytest.param(["--held-requests=0"], POD, "must be a whole number from 1", id="nothing may be held"),
        pytest.param(["--grace=5"], POD, "see modelfleet-activator --help", id="an unknown flag"),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments: list[str], variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionsError, match=sentence):
        parse(arguments, variables)


@pytest.mark.parametrize(
    "content, sentence",
    [pytest.param(None, "cannot be read", id="there is none"), pytest.param(" \n", "it must hold a token", id="empty")],
)
def test_a_token_file_without_a_token_ends_the_process_with_status_2(
    content: str | None,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("POD_NAME", "activator-a")
    with pytest.raises(SystemExit) as ended:
        main([f"--caller-token-file={path}"])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("modelfleet-activator: --caller-token-file")
    assert sentence in said
