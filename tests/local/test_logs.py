"""The logs of clusters that are down: the newest are kept, whoever else removes old ones at the same time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from modelfleet_local import cluster


def test_clusters_that_start_at_once_prune_the_same_old_logs(tmp_path: Path) -> None:
    for number in range(200):
        folder = tmp_path / f"old-{number}"
        folder.mkdir()
        for part in ("etcd", "kubelet", "kwok"):
            (folder / f"{part}.log").write_text("it ran")

    with ThreadPoolExecutor(8) as starting:
        list(starting.map(cluster._prune_logs, [tmp_path] * 8))

    assert 0 < len(list(tmp_path.iterdir())) < 200
