"""A client of one worker while it drains: `drain_client.py http://IP:PORT MODEL TOKENS`.

Prints `streaming` once a stream of so many tokens runs, and when that has ended one JSON object: whether it came whole,
and what other requests got meanwhile, each on a connection of its own: what was said in order, and how often.
"""

import http.client
import json
import sys
import threading
import time
import urllib.request
from typing import Any

_PAUSE_S = 0.1


def stream(url: str, model: str, tokens: int, seen: dict[str, Any], running: threading.Event) -> None:
    """Reads a stream to its end."""
    body = {"model": model, "prompt": "hi", "max_tokens": tokens, "stream": True, "ignore_eos": True}
    body["stream_options"] = {"include_usage": True}
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), _JSON)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            for line in answer:
                running.set()
                seen["last"] = line.decode().strip() or seen.get("last", "")
                if '"completion_tokens"' in seen["last"]:
                    seen["tokens"] = json.loads(seen["last"].removeprefix("data: "))["usage"]["completion_tokens"]
    except OSError as error:
        seen["broken"] = str(error)


def other(url: str) -> str:
    """One more request by a client that would keep its connection, and how it is answered."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        retry = answer.headers["Retry-After"]
        return f"{answer.status} retry after {retry}" if retry else f"{answer.status} {_kept(answer)}"
    except (OSError, http.client.HTTPException) as error:
        return f"no answer: {error}"
    finally:
        connection.close()


def _kept(answer: http.client.HTTPResponse) -> str:
    return "close" if answer.headers["Connection"] == "close" else "kept"


def main(url: str, model: str, tokens: str) -> None:
    """Streams, and asks beside it."""
    seen: dict[str, Any] = {"tokens": 0}
    said: list[list[Any]] = []
    running = threading.Event()
    reader = threading.Thread(target=stream, args=(url, model, int(tokens), seen, running))
    reader.start()
    running.wait(60)
    print("streaming", flush=True)
    while reader.is_alive():
        answer = other(url)
        if reader.is_alive():
            if not said or said[-1][0] != answer:
                said.append([answer, 0])
            said[-1][1] += 1
        time.sleep(_PAUSE_S)
    print(json.dumps({**seen, "others": said}))


_JSON = {"Content-Type": "application/json"}

if __name__ == "__main__":
    main(*sys.argv[1:4])
