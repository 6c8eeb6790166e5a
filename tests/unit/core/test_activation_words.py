"""What an activator says to clients, and which headers it hands on."""

import json
from datetime import UTC, datetime

import pytest

from activator_api import deployment
from modelfleet.core.activation import answers
from modelfleet.core.activation.headers import end_to_end, handed_on
from modelfleet.core.activation.known import Known, known

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


@pytest.fixture
def model() -> Known:
    made = known(deployment("chat", 20000, coldStart={"p90Seconds": 42}))
    assert made is not None
    return made


@pytest.mark.parametrize(
    "path, body, streams",
    [
        pytest.param(CHAT, b'{"stream": true}', True, id="asked for"),
        pytest.param(CHAT, b'{"stream" :\n true, "n": 1}', True, id="with spaces"),
        pytest.param(CHAT, b'{"stream": false}', False, id="declined"),
        pytest.param(CHAT, b"{}", False, id="not said"),
        pytest.param(CHAT, b'{"messages": [{"content": "\\"stream\\": true"}]}', False, id="in a text"),
        pytest.param(CHAT, b'{"metadata": {"stream": true}}', False, id="another object's key"),
        pytest.param(CHAT, b'{"stream": true', False, id="no JSON"),
        pytest.param(CHAT, b'["stream", {"stream": true}]', False, id="no object"),
        pytest.param("/tokenize", b'{"stream": true}', False, id="a path that streams nothing"),
        pytest.param(MESSAGES, b'{"stream": true}', True, id="Anthropic's API"),
    ],
)
def test_a_stream_is_known_by_the_body(path: str, body: bytes, streams: bool) -> None:
    assert answers.wants_stream(path, body) is streams


@pytest.mark.parametrize(
    "method, path, wakes",
    [
        pytest.param("POST", CHAT, True, id="a chat completion"),
        pytest.param("POST", "/v1/completions", True, id="a completion"),
        pytest.param("POST", MESSAGES, True, id="a message"),
        pytest.param("POST", "/v1/messages/count_tokens", True, id="counting tokens"),
        pytest.param("POST", RESPONSES, True, id="a response"),
        pytest.param("POST", "/tokenize", True, id="tokenizing"),
        pytest.param("GET", CHAT, False, id="a GET"),
        pytest.param("GET", "/v1/models", False, id="the list of models"),
        pytest.param("GET", "/health", False, id="a load balancer's look"),
        pytest.param("POST", "/v1/chat/completions/x", False, id="a path that is none"),
        pytest.param("POST", "/sleep", False, id="an admin path"),
    ],
)
def test_only_what_asks_for_work_wakes(method: str, path: str, wakes: bool) -> None:
    assert answers.wakes(method, path) is wakes


def test_errors_are_those_of_the_path_s_api() -> None:
    assert json.loads(answers.error_body(CHAT, 503, "later")) == {
        "error": {"message": "later", "type": "ServiceUnavailableError", "param": None, "code": 503}
    }
    assert json.loads(answers.error_body(MESSAGES, 503, "later")) == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "later"},
    }


def test_the_end_of_a_stream_that_waited_is_an_event_of_the_path_s_api() -> None:
    chat = answers.error_event(CHAT, 503, "no room", 30).decode().split("\n\n")
    message = answers.error_event(MESSAGES, 503, "no room").decode()
    response = answers.error_event(RESPONSES, 503, "no room").decode()

    assert json.loads(chat[0].removeprefix("data: "))["error"]["message"] == "no room; try again in 30 s"
    assert chat[1:] == ["data: [DONE]", ""]
    assert message.startswith("event: error\ndata: ")
    assert json.loads(response.splitlines()[1].removeprefix("data: "))["type"] == "error"


def test_a_comment_tells_what_is_left(model: Known) -> None:
    assert answers.waiting_comment(model, NOW) == b": chat-model is starting, about 42 s left\n\n"


def test_models_at_zero_are_listed_by_their_served_names(model: Known) -> None:
    (found,) = json.loads(answers.models(model))["data"]

    assert (found["id"], found["object"], found["created"]) == ("chat-model", "model", 1767225600)


@pytest.mark.parametrize(
    "body, said",
    [
        pytest.param(b'{"error": {"message": "too long"}}', "too long", id="OpenAI's form"),
        pytest.param(b'{"message": "too long"}', "too long", id="vLLM's older form"),
        pytest.param(b'{"error": "too long"}', "too long", id="a bare text"),
        pytest.param(b"Bad Gateway", "Bad Gateway", id="no JSON"),
        pytest.param(b"[" * 60000, "[" * 200, id="JSON that is too deep"),
        pytest.param(b"", "the worker refused the request", id="nothing"),
    ],
)
def test_a_worker_s_sentence_is_found(body: bytes, said: str) -> None:
    assert answers.message_of(body) == said


def test_headers_of_one_connection_stay_and_all_others_go_in_order() -> None:
    given = [
        ("Host", "chat"),
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("Authorization", "Bearer s3cret"),
        ("X-Twice", "a"),
        ("x-twice", "b"),
    ]
    assert end_to_end(given) == [
        ("Host", "chat"),
        ("Authorization", "Bearer s3cret"),
        ("X-Twice", "a"),
        ("x-twice", "b"),
    ]


CLAIMS = [("x-modelfleet-spent-ms", "700"), ("X-Modelfleet-At-Zero", "true"), ("x-modelfleet-objective", "fast")]


def test_a_client_s_claims_are_left_out_and_ours_are_told() -> None:
    assert handed_on([*CLAIMS, ("Expect", "100-continue")], "tok", 1.25, at_zero=True) == [
        ("x-modelfleet-objective", "fast"),
        ("x-modelfleet-caller", "tok"),
        ("x-modelfleet-spent-ms", "1250"),
        ("x-modelfleet-at-zero", "true"),
    ]


def test_the_time_that_a_trusted_caller_spent_is_added() -> None:
    passed = dict(handed_on([*CLAIMS, ("X-Modelfleet-Caller", "tok")], "tok", 0.3, at_zero=False))

    assert passed["x-modelfleet-spent-ms"] == "1000"
    assert "x-modelfleet-at-zero" not in passed


@pytest.mark.parametrize("token", [pytest.param("", id="none"), pytest.param("other", id="another")])
def test_a_wrong_token_is_not_believed(token: str) -> None:
    passed = dict(handed_on([*CLAIMS, ("x-modelfleet-caller", token)], "tok", 0.3, at_zero=False))

    assert passed["x-modelfleet-spent-ms"] == "300"


def test_without_a_token_of_our_own_nothing_of_ours_is_told() -> None:
    assert handed_on(CLAIMS, "", 0.3, at_zero=True) == [("x-modelfleet-objective", "fast")]
