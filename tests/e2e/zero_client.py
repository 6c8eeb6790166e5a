"""Clients of a model that may be at zero: `zero_client.py URL MODEL COUNT TOKENS [STREAM] [PATIENCE_S]`, COUNT at once.

Prints one JSON object: for each request what became of it (`answered`, `refused`, `broken`, `gone`), the seconds to its
first token, the tokens that came, and of a refused one the status, Retry-After and sentence. STREAM 1: streamed.
PATIENCE_S: the client gives up after so long. Each on a connection of its own.
"""

import http.client
import json
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit


def ask(plan: dict[str, Any], index: int, results: list[dict[str, Any]]) -> None:
    """One request to its end."""
    body = {
        "model": plan["model"],
        "messages": [{"role": "user", "content": f"request {index}"}],
        "max_tokens": plan["tokens"],
        "ignore_eos": True,
        **({"stream": True, "stream_options": {"include_usage": True}} if plan["stream"] else {}),
    }
    begun_s = time.monotonic()
    result: dict[str, Any] = {"became": "broken", "tokens": 0}
    connection = http.client.HTTPConnection(plan["host"], timeout=plan["patience_s"])
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            retry = answer.headers["Retry-After"]
            result |= {"became": "refused", "status": answer.status, "retry": retry, "said": answer.read().decode()}
        elif plan["stream"]:
            _read_stream(answer, begun_s, result)
        else:
            usage = json.load(answer)["usage"]
            result |= {"became": "answered", "tokens": usage["completion_tokens"]}
        result.setdefault("first_s", time.monotonic() - begun_s)
    except TimeoutError:
        result["became"] = "gone"
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        result["said"] = f"{type(error).__name__}: {error}"
    finally:
        connection.close()
        results.append(result)


def _read_stream(answer: http.client.HTTPResponse, begun_s: float, result: dict[str, Any]) -> None:
    while line := answer.readline():
        text = line.decode().strip()
        if text.startswith(":"):
            result["comments"] = result.get("comments", 0) + 1
        elif text == "data: [DONE]":
            result["became"] = "answered"
        elif text.startswith("data: "):
            event = json.loads(text.removeprefix("data: "))
            if "error" in event:
                result |= {"became": "refused", "status": 200, "retry": None, "said": text}
                return
            result.setdefault("first_s", time.monotonic() - begun_s)
            result["tokens"] = (event.get("usage") or {}).get("completion_tokens", result["tokens"])


def main(url: str, model: str, count: str, tokens: str, stream: str = "0", patience_s: str = "300") -> None:
    """All at once."""
    plan = {"host": urlsplit(url).netloc, "model": model, "tokens": int(tokens), "stream": stream == "1"}
    plan["patience_s"] = float(patience_s)
    results: list[dict[str, Any]] = []
    threads = [threading.Thread(target=ask, args=(plan, index, results)) for index in range(int(count))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
