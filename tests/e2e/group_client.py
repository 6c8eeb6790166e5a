"""A client that streams one greedy answer after the other and judges each: `group_client.py URL MODEL TOKENS EXPECTED`.

EXPECTED: the text that a right answer has; "" prints the first one and ends. Ends when its input does. Prints one JSON
object a line: {"at": seconds since the epoch, "began": the same, "is": "right", "error" or "wrong", "what": ...}. Wrong
is what looks like a whole answer and is not the expected one; an answer that breaks off, visibly, is an error.
"""

import json
import sys
import threading
import time
import urllib.error
import urllib.request

_TIMEOUT_S = 30.0  # between two pieces: a pod that vanished with its network answers nothing, not even a reset
_PAUSE_S = 0.2


class BrokenError(Exception):
    """The answer did not come whole, and the client could see that."""


def answer(url: str, model: str, tokens: int) -> str:
    """One streamed answer. Raises BrokenError."""
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": model, "messages": messages, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    wanted = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}}).encode()
    request = urllib.request.Request(url, wanted, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return read(response)
    except urllib.error.HTTPError as error:
        raise BrokenError(f"HTTP {error.code}") from error
    except (OSError, ValueError) as error:
        raise BrokenError(f"{type(error).__name__}: {error}"[:200]) from error
    except Exception as error:  # http.client has exceptions of its own for an answer that breaks off
        raise BrokenError(f"{type(error).__name__}"[:200]) from error


def read(response: "urllib.response.addinfourl") -> str:
    """The text of a stream that came whole."""
    parts = []
    for line in response:
        data = line.decode().removeprefix("data: ").strip()
        if data == "[DONE]":
            return "".join(parts)
        if not data:
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            raise BrokenError(f"an error in the stream: {chunk['error'].get('message', '')}"[:200])
        parts += [choice["delta"].get("content") or "" for choice in chunk["choices"]]
    raise BrokenError("the stream ended before [DONE]")


def judged(url: str, model: str, tokens: int, expected: str) -> tuple[str, str]:
    """What an answer is, and what there is to say of it."""
    try:
        text = answer(url, model, tokens)
    except BrokenError as error:
        return "error", str(error)
    return ("right", "") if text == expected else ("wrong", text)


def main(url: str, model: str, tokens: int, expected: str) -> None:
    """Asks until standard input ends."""
    if not expected:
        print(json.dumps(answer(url, model, tokens)))
        return
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    while not stop.is_set():
        began_s = time.time()
        kind, what = judged(url, model, tokens, expected)
        print(json.dumps({"at": time.time(), "began": began_s, "is": kind, "what": what}), flush=True)
        stop.wait(_PAUSE_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
