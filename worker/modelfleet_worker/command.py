"""The engine's command line and environment. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from modelfleet_worker import gate_state
from modelfleet_worker.parts import Equipment
from modelfleet_worker.plan import Plan

GATE = "modelfleet_worker.gate.Gate"
# An engine that is stopped is idle or past its drain. With a time-out above zero it would wait all of it, even idle.
_SHUTDOWN_TIMEOUT_S = 0
# What the container's image and runtime say about devices and libraries; the rest of our environment stays here.
_INHERITED = frozenset({"PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ"})
_INHERITED_PREFIXES = ("CUDA_", "NVIDIA_", "HIP_", "ROCR_", "ROCM_")


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the command depends on besides the plan: where to listen, the only folder of ours on the engine's path, the
    gate's folder and token, a folder for caches, which is the only place the engine may write to, and what the
    worker's parts add."""

    python: str
    host: str
    port: int
    code: str
    gate_folder: str
    gate_token: str
    scratch: str
    equipment: tuple[Equipment, ...] = ()


def argv(plan: Plan, around: Surroundings) -> list[str]:
    """An argument list; never goes through a shell. Ours come last, so that they win."""
    return [
        *_serve(plan, around.python),
        *(argument for each in around.equipment for argument in each.args),
        f"--host={around.host}",
        f"--port={around.port}",
        f"--middleware={GATE}",
        f"--shutdown-timeout={_SHUTDOWN_TIMEOUT_S}",
        "--disable-access-log-for-endpoints=/health,/metrics",
        "--served-model-name",
        *plan.served_names,
    ]


def environment(plan: Plan, around: Surroundings, own: Mapping[str, str]) -> dict[str, str]:
    """The engine's environment: devices and libraries from `own`, offline, caches in scratch, then the plan's."""
    return {
        **base_environment(plan, around.scratch, own),
        **{name: value for each in around.equipment for name, value in each.env.items()},
        "PYTHONPATH": around.code,
        gate_state.FOLDER_VARIABLE: around.gate_folder,
        gate_state.TOKEN_VARIABLE: around.gate_token,
    }


def follower_argv(plan: Plan, python: str, group_args: tuple[str, ...]) -> list[str]:
    """An argument list for a member that has no API: neither ports nor a gate."""
    return [
        *_serve(plan, python),
        *group_args,
        "--served-model-name",
        *plan.served_names,
    ]


def _serve(plan: Plan, python: str) -> tuple[str, ...]:
    return (python, "-m", "vllm.entrypoints.cli.main", "serve", plan.model_path, *plan.args)


def base_environment(plan: Plan, scratch: str, own: Mapping[str, str]) -> dict[str, str]:
    """What every engine process is given, also that of a member without a gate."""
    inherited = {
        name: value for name, value in own.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    caches = {
        "HF_HOME": "huggingface",
        "NUMBA_CACHE_DIR": "numba",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "VLLM_CACHE_ROOT": "vllm",
        "VLLM_CONFIG_ROOT": "vllm-config",
        "XDG_CACHE_HOME": "cache",
        "XDG_CONFIG_HOME": "config",
    }
    return {
        **inherited,
        **{name: f"{scratch}/{folder}" for name, folder in caches.items()},
        "HOME": scratch,
        "TMPDIR": scratch,
        "USER": "modelfleet",  # libraries ask who they are, and a container's user has no name
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONSAFEPATH": "1",  # the working folder can be written to, so nothing is imported from it
        **plan.env,
    }
