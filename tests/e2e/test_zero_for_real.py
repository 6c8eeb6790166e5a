"""To zero and back on a real kubelet and kube-proxy, with the chart's activators, as clients see it; `make e2e-zero`.

Most of it on the stand-in engine, which starts in seconds; three cycles on vLLM. Prints what each story cost.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
import stand_in_installation
from site_under_test import Site
from zero_story import ACTIVATORS, OPERATORS, Story, became, to_zero, told

from cluster_fixtures import own_cluster
from modelfleet_local import Options, engine, fleet
from modelfleet_local.node import NodeShape
from modelfleet_local.paths import cache_dir

pytestmark = [pytest.mark.thorough]

CYCLES, VLLM_CYCLES, SEED = 20, 3, 8
ROOMY = NodeShape(extended_resources={"modelfleet.dev/cpu-slot": 4})


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A cluster of this module's own with modelfleet and its activators."""
    with own_cluster("zero", Options(nodes=1, node_shape=ROOMY, owned=True)) as cluster:
        images = fleet.load_images(cluster)
        values = {
            "activator.enabled": "true",
            "activator.resources.requests.cpu": "10m",
            "worker.propagationSeconds": "3",
            "worker.drainSeconds": "60",
        }
        fleet.install_operator(cluster, images, values)
        made = Site(cluster, "zero")
        fleet.apply(cluster, fleet.model_namespace(made.namespace))
        yield made


@pytest.fixture(scope="module")
def stand_in(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in and a model on claims; turns of its knobs count from the next start."""
    folder = Path(tmp_path_factory.mktemp("stand-in"))
    (folder / "models" / "good").mkdir(parents=True)
    (folder / "models" / "good" / "config.json").write_text("{}")
    for above in (folder, *folder.parents[:2], folder / "models", folder / "models" / "good"):
        above.chmod(0o755)
    stand_in_installation.install(folder / "engine")
    stand_in_installation.turn(folder / "engine", STAND_IN_TOKEN_S="0.02")
    fleet.apply(site.cluster, fleet.claimed_folder(site.namespace, "stand-in", folder / "engine"))
    fleet.apply(site.cluster, fleet.claimed_folder(site.namespace, "shelf", folder / "models"))
    return folder / "engine"


@pytest.fixture
def story(site: Site, stand_in: Path, request: pytest.FixtureRequest) -> Iterator[Story]:
    """A model on the stand-in that has gone to zero."""
    name = f"z{crc32(request.node.name.encode()):08x}"
    site.apply(to_zero(site, name, "stand-in", "pvc://shelf/good"))
    made = Story(site, name)
    made.at_zero()
    yield made
    site.kubectl("delete", "mdep", name, "--ignore-not-found")
    site.wait("no pods", lambda: not site.pods(name), timeout_s=120)


def test_one_request_brings_a_replica_and_idleness_takes_it(story: Story) -> None:
    assert story.status["replicas"] == 0
    conditions = {each["type"]: (each["status"], each["reason"]) for each in story.status["conditions"]}
    assert conditions["Ready"] == conditions["Available"] == ("True", "AtZero")
    for stream in (False, True):
        begun_s = time.monotonic()
        results = story.ask(1, stream=stream)
        told(story, f"0 → 1, {'streamed' if stream else 'whole'}", begun_s, results)
        assert became(results) == {"answered": 1}
        assert results[0]["tokens"] == 4
        story.at_zero()
    assert story.status["coldStart"]["starts"] >= 2
    print({each["name"]: each["p50Seconds"] for each in story.status["coldStart"]["phases"]})


def test_sixty_requests_bring_three_replicas_and_each_runs_once(story: Story) -> None:
    begun_s = time.monotonic()
    asked = story.start(60, tokens=200, stream=True)
    story.site.wait("three replicas", lambda: len(story.site.pods(story.name)) == 3, 60)
    results = asked.results()
    told(story, "0 → 3, sixty at once", begun_s, results)
    assert became(results) == {"answered": 60}
    assert {each["tokens"] for each in results} == {200}
    total, first = story.arrivals()
    assert total == 60
    assert 0 < first <= 60


def test_cycles_under_random_traffic_lose_nothing(story: Story) -> None:
    dice, counts, waits_s = random.Random(SEED), {}, []
    for _ in range(CYCLES):
        results = story.ask(dice.randint(1, 30), tokens=dice.randint(1, 100), stream=dice.random() < 0.5)
        for what, count in became(results).items():
            counts[what] = counts.get(what, 0) + count
        waits_s += [each["first_s"] for each in results if "first_s" in each]
        # The next comes anywhere: while it serves, is about to go, drains, or is at zero.
        time.sleep(dice.uniform(0.0, 25.0))
    story.at_zero()
    print(f"\n{story.name}: {CYCLES} cycles: {counts}, the slowest first token after {max(waits_s):.1f} s")
    print(story.status["toZero"].get("advice", ""))
    assert set(counts) == {"answered"}


def test_a_killed_activator_breaks_what_it_held_and_the_other_answers(story: Story, stand_in: Path) -> None:
    stand_in_installation.turn(stand_in, STAND_IN_TOKEN_S="0.02", STAND_IN_START_S="8")
    try:
        asked = story.start(20, tokens=8)
        story.reaches("Waking")
        story.kill(ACTIVATORS)
        results = asked.results()
        told(story, "an activator killed while it holds", time.monotonic(), results)
        counts = became(results)
        assert set(counts) <= {"answered", "broken"}
        assert counts["answered"] > 0, "the other one's requests are answered"
        again = story.ask(max(1, counts.get("broken", 0)))
        assert set(became(again)) == {"answered"}
        assert len(story.site.pods(story.name)) == 1
    finally:
        stand_in_installation.turn(stand_in, STAND_IN_TOKEN_S="0.02")


@pytest.mark.parametrize("state", ["Leaving", "AtZero", "Waking", "Serving"])
def test_an_operator_killed_in_the_handshake_costs_no_request(story: Story, state: str) -> None:
    asked = story.start(5, tokens=20)
    if state == "Waking":
        story.reaches(state)
        story.kill(OPERATORS, all_of_them=True)
    assert became(asked.results()) == {"answered": 5}
    story.reaches("Serving")
    if state in ("Leaving", "Serving"):
        story.reaches(state)
        story.kill(OPERATORS, all_of_them=True)
        assert became(story.ask(3)) == {"answered": 3}
    story.at_zero()
    if state == "AtZero":
        asked = story.start(3)
        story.kill(OPERATORS, all_of_them=True)
        assert became(asked.results()) == {"answered": 3}


def test_a_client_that_gives_up_costs_no_second_wake(story: Story) -> None:
    assert became(story.ask(1, patience_s=1.0)) == {"gone": 1}
    time.sleep(5)  # it may have woken for it, or not
    story.at_zero()
    before = story.site.pods(story.name)
    time.sleep(15)
    assert (story.state, before) == ("AtZero", [])


def test_a_wake_with_a_broken_image_is_refused_with_the_reason_and_a_time(story: Story) -> None:
    story.site.kubectl(
        "patch", "mdep", story.name, "--type=merge", '--patch={"spec": {"engine": {"image": "registry.invalid/no:1"}}}'
    )
    story.site.wait("it is planned anew", lambda: story.state == "AtZero", 60)
    begun_s = time.monotonic()
    results = story.ask(3)
    told(story, "a broken image", begun_s, results)
    assert became(results) == {"refused": 3}
    for each in results:
        assert each["status"] == 503
        assert int(each["retry"]) >= 1
        assert "registry.invalid/no:1" in each["said"]
    (again,) = story.ask(1)
    assert (again["became"], again["status"]) == ("refused", 503)
    available = story.site.condition(story.name, "Available")
    assert (available["status"], available["reason"]) == ("False", "WakeFailed")


@pytest.mark.engine
def test_cycles_on_vllm_lose_nothing(site: Site) -> None:
    fleet.apply(
        site.cluster,
        fleet.claimed_folder(site.namespace, fleet.MODEL_CLAIM, engine.require_model(cache_dir())),
        fleet.claimed_folder(site.namespace, fleet.ENGINE_CLAIM, engine.require_engine(cache_dir())),
    )
    flags = {"enforce-eager": "true", "kv-cache-memory-bytes": "64M", "max-num-seqs": "8"}
    manifest = to_zero(site, "vllm", fleet.ENGINE_CLAIM, f"pvc://{fleet.MODEL_CLAIM}")
    manifest["spec"]["engine"]["args"] = flags
    site.apply(manifest)
    story = Story(site, "vllm", settles_s=900.0)
    story.at_zero()
    for cycle in range(VLLM_CYCLES):
        begun_s = time.monotonic()
        results = story.ask(4, tokens=16, stream=cycle % 2 == 0)
        told(story, f"cycle {cycle + 1} on vLLM", begun_s, results)
        assert became(results) == {"answered": 4}
        story.at_zero()
    print({each["name"]: (each["p50Seconds"], each["p90Seconds"]) for each in story.status["coldStart"]["phases"]})
    print(story.status["toZero"].get("advice", ""))
