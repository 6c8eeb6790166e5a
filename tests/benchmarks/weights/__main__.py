"""What a fetch from a hub on loopback costs: time, and processor time for a gigabyte, checksums included."""

import resource
import shutil
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from fetch_runs import HUB, run
from modelfleet_worker.fetch.transfer import Patience
from weight_servers import HubHandler, Shelf, model, serving

SHARDS, SHARD_BYTES = 4, 64_000_000


def _serve(ready: Connection) -> None:
    shelf = Shelf(model(SHARDS, SHARD_BYTES))
    with serving(HubHandler, shelf) as address:
        ready.send(address)
        ready.recv()
        ready.send(shelf.sent_bytes())


def main() -> int:
    """Prints one line for a fetch, and one for the start of a pod that finds the model there."""
    ours, theirs = get_context("fork").Pipe()
    server = get_context("fork").Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    folder = Path(tempfile.mkdtemp(prefix="bench-weights-"))
    try:
        order = HUB.order(str(ours.recv()), folder / "store")
        for what in ("fetched and checked", "found there"):
            before, began_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
            failure = run(order, patience=Patience())
            if failure is not None:
                print(failure.message, file=sys.stderr)
                return 1
            after, took_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began_s
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            gigabytes = SHARDS * SHARD_BYTES / 1e9
            print(f"weights: {gigabytes:.3g} GB {what} in {took_s:.2f} s, {cpu_s / gigabytes:.2f} CPU seconds a GB")
        ours.send(None)
        print(f"weights: the hub sent {ours.recv()} bytes")
    finally:
        shutil.rmtree(folder)
        server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
