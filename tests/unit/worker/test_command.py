"""The engine's command line and environment."""

from modelfleet_worker.command import Surroundings, argv, environment
from modelfleet_worker.plan import Limits, Plan

PLAN = Plan(
    revision="1a2b3c4d",
    model_path="/models/claim",
    served_names=("chat", "alias"),
    python=None,
    args=("--max-model-len=1024", "--port=1", "--seed=$(reboot)"),
    env={"OMP_NUM_THREADS": "1", "PYTHONPATH": "/elsewhere", "HF_HUB_OFFLINE": "0"},
    limits=Limits(start_deadline_s=1, drain_s=1, propagation_s=1),
)
AROUND = Surroundings(
    python="/opt/engine/bin/python",
    host="::",
    port=8000,
    code="/run/modelfleet/code",
    gate_folder="/run/modelfleet/gate",
    gate_token="secret",
    scratch="/tmp",
)


def test_ours_come_after_the_plans_and_win() -> None:
    assert argv(PLAN, AROUND) == [
        "/opt/engine/bin/python",
        "-m",
        "vllm.entrypoints.cli.main",
        "serve",
        "/models/claim",
        "--max-model-len=1024",
        "--port=1",
        "--seed=$(reboot)",
        "--host=::",
        "--port=8000",
        "--middleware=modelfleet_worker.gate.Gate",
        "--shutdown-timeout=0",
        "--disable-access-log-for-endpoints=/health,/metrics",
        "--served-model-name",
        "chat",
        "alias",
    ]


def test_the_environment_holds_devices_and_the_plans_words_and_no_service_links() -> None:
    own = {
        "PATH": "/usr/bin",
        "CUDA_VISIBLE_DEVICES": "1",
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "VLLM_PORT": "tcp://10.0.0.1:80",
        "VLLM_SERVER_DEV_MODE": "1",
        "HF_TOKEN": "secret",
        "PYTHONHOME": "/x",
    }
    env = environment(PLAN, AROUND, own)
    assert not {"VLLM_PORT", "VLLM_SERVER_DEV_MODE", "HF_TOKEN", "PYTHONHOME"} & env.keys()
    assert (env["PATH"], env["CUDA_VISIBLE_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"]) == ("/usr/bin", "1", "GPU-1")
    assert (env["OMP_NUM_THREADS"], env["VLLM_NO_USAGE_STATS"], env["DO_NOT_TRACK"]) == ("1", "1", "1")
    assert (env["PYTHONPATH"], env["PYTHONSAFEPATH"]) == ("/run/modelfleet/code", "1")


def test_every_cache_lies_in_scratch() -> None:
    env = environment(PLAN, AROUND, {})
    places = {name: value for name, value in env.items() if name == "HOME" or name.endswith(("_DIR", "_ROOT", "_HOME"))}
    assert len(places) >= 8
    assert all(value.startswith("/tmp") for value in places.values())
