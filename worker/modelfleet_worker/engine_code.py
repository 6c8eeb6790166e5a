"""What the engine's Python finds of ours: entry points, so that vLLM loads our plugins without being installed into.

Python looks for entry points in folders named *.dist-info beside the packages on its path. Ours stands in the folder
that is on the engine's PYTHONPATH anyway, next to the link to our package.
"""

from pathlib import Path

_FOLDER = "modelfleet_worker_plugin-1.dist-info"
_METADATA = "Metadata-Version: 2.1\nName: modelfleet-worker-plugin\nVersion: 1\n"
_ENTRY_POINTS = """[vllm.stat_logger_plugins]
modelfleet = modelfleet_worker.vllm_plugin:GoodputStatLogger

[vllm.general_plugins]
modelfleet_core = modelfleet_worker.vllm_core:install
"""


def write_entry_point(code: Path) -> None:
    """Writes it below `code`, the folder on the engine's PYTHONPATH. The same again changes nothing."""
    folder = code / _FOLDER
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(_METADATA)
    (folder / "entry_points.txt").write_text(_ENTRY_POINTS)
