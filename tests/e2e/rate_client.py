"""Requests at a rate, whatever becomes of them: `rate_client.py URL MODEL GOOD_S`. Rates a second come as lines on
standard input, the next replaces the one before; the end of the input ends the load.

Prints one JSON object: how many were answered, how many of them within GOOD_S, the seconds of the slowest, and what
went wrong with each other request. Arrivals are Poisson, by a fixed seed.
"""

import json
import random
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

_CLIENTS = 64


class Load:
    """The rate now, and what became of requests."""

    def __init__(self, url: str, model: str) -> None:
        content = {"model": model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 20, "ignore_eos": True}
        self._request = urllib.request.Request(url, json.dumps(content).encode(), {"Content-Type": "application/json"})
        self.rate_rps = 0.0
        self.ended = threading.Event()
        self.took_s: list[float] = []
        self.failed: list[str] = []

    def follow(self) -> None:
        """Takes rates from standard input until it ends."""
        for line in sys.stdin:
            self.rate_rps = float(line)
        self.ended.set()

    def ask(self) -> None:
        """One request on a connection of its own."""
        began_s = time.monotonic()
        try:
            with urllib.request.urlopen(self._request, timeout=120) as response:
                json.load(response)
                self.took_s.append(time.monotonic() - began_s)
        except (OSError, ValueError) as error:
            self.failed.append(f"{type(error).__name__}: {error}")

    def run(self) -> None:
        """Until the input ends and every request has come to its end."""
        arrivals = random.Random(9)
        threading.Thread(target=self.follow, daemon=True).start()
        with ThreadPoolExecutor(_CLIENTS) as pool:
            while not self.ended.is_set():
                if self.rate_rps <= 0:
                    time.sleep(0.1)
                    continue
                self.ended.wait(arrivals.expovariate(self.rate_rps))
                pool.submit(self.ask)


def main(url: str, model: str, good_s: float) -> None:
    """Runs the load and prints what became of it."""
    load = Load(url, model)
    load.run()
    good = sum(took_s <= good_s for took_s in load.took_s)
    slowest_s = round(max(load.took_s, default=0.0), 2)
    print(json.dumps({"answered": len(load.took_s), "good": good, "slowest_s": slowest_s, "failed": load.failed}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
