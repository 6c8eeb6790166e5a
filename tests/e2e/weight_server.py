"""A model hub in the cluster's network: prints its port, then what it sent so far for each line that it reads."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from weight_servers import TOKEN, Fault, HubHandler, Shelf, model, serving


def main(host: str, size: int) -> None:
    """Serves until its input ends. The word `stall` makes every file fall silent after 100 kB, `go` ends that."""
    shelf = Shelf(model(4, size), private=True)
    with serving(HubHandler, shelf, host) as address:
        print(json.dumps({"port": int(address.rpartition(":")[2]), "token": TOKEN}), flush=True)
        for line in sys.stdin:
            word = line.strip()
            if word == "stall":
                shelf.faults = {".safetensors": [Fault(after=100_000, how="end", silent_s=300)] * 1000}
            elif word == "go":
                shelf.faults = {}
            total = sum(map(len, shelf.files.values()))
            seen = {"bytes": shelf.sent_bytes(), "modelBytes": total, "listings": shelf.listings()}
            print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
