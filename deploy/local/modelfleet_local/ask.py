"""Sends one chat completion and prints its text as it comes: `ask.py URL BODY`. Standard library only, no state."""

import json
import sys
import urllib.error
import urllib.request

_TIMEOUT_S = 300.0


def main(url: str, body: str) -> int:
    """Exit status 0 if the answer came whole; else 1 and one line on standard error."""
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            if not json.loads(body).get("stream"):
                print(json.load(response)["choices"][0]["message"]["content"])
                return 0
            return _print_stream(response)
    except urllib.error.HTTPError as error:
        print(f"HTTP {error.code}: {error.read().decode(errors='replace')}", file=sys.stderr)
    except (OSError, ValueError, KeyError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 1


def _print_stream(lines: "urllib.response.addinfourl") -> int:
    for line in lines:
        data = line.decode().removeprefix("data: ").strip()
        if data == "[DONE]":
            print()
            return 0
        if data and data.startswith("{"):
            chunk = json.loads(data)
            if "error" in chunk:
                print(f"error inside the stream: {chunk['error']}", file=sys.stderr)
                return 1
            for choice in chunk["choices"]:  # none in a chunk that tells the usage
                print(choice["delta"].get("content") or "", end="", flush=True)
    print("the stream ended before [DONE]", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
