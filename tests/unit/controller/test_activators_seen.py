"""What the operator sees of activators: the answer through the Service, ages of demand, a port of its own."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from builders import Raw, world
from fake_cluster import FakeCluster
from modelfleet.api import names
from modelfleet.controller.activators import ASKED_AT_ONCE, Activators
from modelfleet.controller.cluster import ApiError
from modelfleet.controller.execute import StatusWriter, execute
from modelfleet.controller.handlers import Echoes
from modelfleet.controller.options import OptionsError, parse
from modelfleet.controller.resources import DEPLOYMENTS, Resource
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Create, Delete, Forget
from modelfleet.core.handshake import free_port
from modelfleet.core.scaling.zero_kept import FIRST_PORT, PORTS
from modelfleet.core.snapshot import World
from zero_site import Site, to_zero

KEY = Key("team", "chat")
OURS = json.dumps({"uid": "uid-of-chat", "activator": "a1"}).encode()


def kept(port: int | None, state: str = "Serving") -> Raw:
    """The ConfigMap that remembers it."""
    data = {names.ZERO_KEY: json.dumps({"state": state, "port": port})}
    return {"metadata": {"name": "chat-state"}, "data": data}


def seen(state: str, **service: Any) -> World:
    """A model that is `state`, with its Service."""
    owner = {"uid": "uid-of-chat", "controller": True, "kind": names.DEPLOYMENT_KIND, "name": "chat"}
    return world(
        to_zero(),
        config_maps=(kept(20001, state),),
        services=(
            {
                "metadata": {"name": "chat", "ownerReferences": [owner]},
                "spec": {"clusterIP": "10.0.0.1", **service},
            },
        ),
    )


class Network:
    """Answers what each connection in turn gets, the last for ever."""

    def __init__(self, *answers: tuple[int, bytes] | Exception) -> None:
        self.answers, self.asked = list(answers), []

    async def __call__(self, url: str) -> tuple[int, bytes]:
        self.asked.append(url)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def answered(of: World, *answers: tuple[int, bytes] | Exception) -> World:
    return await Activators(FakeCluster("team"), (), Network(*answers)).seen_in(KEY, of)


@pytest.mark.parametrize("state", ["Leaving", "AtZero", "Waking"])
async def test_one_answer_of_an_activator_among_pods_is_proof(state: str) -> None:
    found = (await answered(seen(state), (404, b"no"), (404, b"no"), (200, OURS), (404, b"no"))).activator

    assert found is not None
    assert found.proven


@pytest.mark.parametrize(
    ("of", "answer", "why"),
    [
        (seen("AtZero"), (404, b""), "answered by no activator of this model (HTTP 404)"),
        (seen("AtZero"), (200, b"[]"), "answered by no activator of this model (HTTP 200)"),
        (seen("AtZero"), (200, b"{"), "answered by no activator of this model (HTTP 200)"),
        (seen("AtZero"), (200, b"[" * 4096), "answered by no activator of this model (HTTP 200)"),
        (seen("AtZero"), (200, OURS.replace(b"chat", b"else")), "answered by no activator of this model (HTTP 200)"),
        (seen("AtZero"), ConnectionRefusedError(), "does not answer (ConnectionRefusedError)"),
        (seen("AtZero"), TimeoutError(), "does not answer (TimeoutError)"),
        (seen("AtZero", clusterIP="None"), (200, OURS), "its Service has no address"),
        (replace(seen("AtZero"), services=()), (200, OURS), "the model has no Service yet"),
    ],
)
async def test_everything_else_is_silence_with_a_reason(of: World, answer: Any, why: str) -> None:
    found = (await answered(of, answer)).activator

    assert found is not None
    assert not found.proven
    assert found.why.endswith(why)


async def test_an_address_of_ipv6_stands_in_brackets_and_nobody_is_asked_while_replicas_serve() -> None:
    network = Network((200, OURS))
    await Activators(FakeCluster("team"), (), network).seen_in(KEY, seen("AtZero", clusterIP="fd00::1"))
    assert network.asked == [f"http://[fd00::1]:80{names.ACTIVATOR_PROBE_PATH}"]

    network = Network((404, b""))
    await Activators(FakeCluster("team"), (), network).seen_in(KEY, seen("AtZero"))
    assert len(network.asked) == 1 + ASKED_AT_ONCE

    network = Network((200, OURS))
    serving = await Activators(FakeCluster("team"), (), network).seen_in(KEY, seen("Serving"))
    assert (serving.activator, network.asked) == (None, [])


@pytest.mark.looptime(start=1000)
async def test_silence_grows_until_an_answer_comes() -> None:
    network = Network(TimeoutError())
    activators = Activators(FakeCluster("team"), (), network)
    await activators.seen_in(KEY, seen("AtZero"))
    await asyncio.sleep(40)
    silent = (await activators.seen_in(KEY, seen("AtZero"))).activator
    network.answers = [(200, OURS)]
    back = (await activators.seen_in(KEY, seen("AtZero"))).activator

    assert silent is not None
    assert (silent.proven, round(silent.silent_s)) == (False, 40)
    assert back is not None
    assert (back.proven, back.silent_s) == (True, 0.0)


@pytest.mark.looptime(start=1000)
async def test_an_entry_of_demand_ages_until_it_is_written_anew() -> None:
    activators, of = Activators(FakeCluster("team"), (), Network((200, OURS))), seen("Serving")

    def told(at: str) -> World:
        demand = [{"activator": "a1", "waiting": 2, "at": at}]
        return replace(of, deployment={**of.deployment, "status": {"demand": demand}})

    await activators.seen_in(KEY, told("t1"))
    await asyncio.sleep(30)
    assert (await activators.seen_in(KEY, told("t1"))).demand_s == {"a1": 30.0}
    assert (await activators.seen_in(KEY, told("t2"))).demand_s == {"a1": 0.0}


def told_port(name: str, port: int) -> Raw:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.DEPLOYMENT_KIND,
        "metadata": {"name": name, "namespace": "team"},
        "spec": {},
        "status": {"toZero": {"activatorPort": port}},
    }


async def test_a_port_is_no_other_models_and_stays() -> None:
    first = free_port("uid-of-chat", frozenset())
    assert first is not None
    cluster = FakeCluster("team")
    stored = cluster.put(told_port("other", first))
    stored["status"] = {"toZero": {"activatorPort": first}}
    cluster._objects[DEPLOYMENTS.plural, "team", "other"] = stored
    activators, new = Activators(cluster), world(to_zero())

    found = [(await activators.seen_in(KEY, new)).activator_port for _ in range(2)]
    assert found[0] == found[1] == FIRST_PORT + (first + 1 - FIRST_PORT) % PORTS
    restarted = Activators(cluster)
    assert (await restarted.seen_in(KEY, new)).activator_port == found[0]


def test_when_all_ports_are_taken_there_is_none() -> None:
    assert free_port("uid", frozenset(range(FIRST_PORT, FIRST_PORT + PORTS))) is None


def model(name: str, uid: str) -> World:
    """A model of that name that has no port yet."""
    new = to_zero(name)
    new["metadata"] |= {"uid": uid}
    return world(new)


async def test_the_port_of_a_model_that_is_gone_is_free_again() -> None:
    activators, key, twin = Activators(FakeCluster("team")), Key("team", "old"), Key("team", "new")
    first = (await activators.seen_in(key, model("old", "uid"))).activator_port
    assert first is not None
    beside = (await activators.seen_in(twin, model("new", "uid"))).activator_port
    activators.forget(key)
    activators.forget(twin)

    assert beside == first + 1
    assert (await activators.seen_in(twin, model("new", "uid"))).activator_port == first


async def test_a_port_that_a_model_keeps_is_no_other_models_though_no_status_tells_it() -> None:
    activators = Activators(FakeCluster("team"))
    alone = free_port("uid", frozenset())
    assert alone is not None
    await activators.seen_in(KEY, replace(seen("Serving"), config_maps=(kept(alone),)))

    assert (await activators.seen_in(Key("team", "new"), model("new", "uid"))).activator_port == alone + 1


async def test_another_model_of_the_same_name_gets_a_port_of_its_own() -> None:
    activators = Activators(FakeCluster("team"))
    found = [(await activators.seen_in(KEY, model("chat", uid))).activator_port for uid in ("one", "two")]

    assert found == [free_port("one", frozenset()), free_port("two", frozenset())]


class Lists(FakeCluster):
    """Counts the lists of ModelDeployments; the first ones fail, as often as is said."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__("team")
        self.asked, self.failures = 0, failures

    async def list(self, resource: Resource, namespace: str | None = None, labels: str | None = None) -> Any:
        self.asked += resource is DEPLOYMENTS
        if self.asked <= self.failures:
            raise ApiError("list modeldeployments: HTTP 503", status=503)
        return await super().list(resource, namespace, labels)


async def test_fifty_new_models_at_once_get_ports_of_their_own_from_one_list() -> None:
    cluster, others = Lists(), [Key("team", f"new-{number}") for number in range(50)]
    activators = Activators(cluster)
    looks = (activators.seen_in(key, model(key.name, f"uid-{key.name}")) for key in others)
    ports = [each.activator_port for each in await asyncio.gather(*looks)]

    assert None not in ports
    assert len(set(ports)) == 50
    assert cluster.asked == 1


async def test_a_list_that_failed_is_asked_for_again() -> None:
    cluster = Lists(failures=1)
    activators = Activators(cluster)
    with pytest.raises(ApiError):
        await activators.seen_in(KEY, model("chat", "uid"))

    assert (await activators.seen_in(KEY, model("chat", "uid"))).activator_port == free_port("uid", frozenset())
    assert cluster.asked == 2


class Keys:
    """Which keys were to be looked at."""

    def __init__(self) -> None:
        self.added: list[Key] = []

    def add(self, key: Key, *, behind: bool = False) -> None:
        assert not behind, "requests are not answered"
        self.added.append(key)


@pytest.mark.looptime(start=1000)
@pytest.mark.parametrize(("state", "follows"), [("AtZero", True), ("Waking", False), ("Serving", False)])
async def test_activators_that_no_longer_answer_at_zero_are_heard_of_between_looks(state: str, follows: bool) -> None:
    network, keys = Network((200, OURS)), Keys()
    activators = Activators(FakeCluster("team"), (), network)
    running = asyncio.create_task(activators.run(keys))
    await activators.seen_in(KEY, seen(state))
    await asyncio.sleep(100)
    assert keys.added == []
    network.answers = [ConnectionRefusedError()]
    await asyncio.sleep(31)
    assert keys.added == ([KEY] if follows else [])
    await activators.seen_in(KEY, seen("AtZero"))
    asked = len(network.asked)
    await asyncio.sleep(100)
    assert len(network.asked) == asked, "a model that is silent is looked at by reconciles"
    running.cancel()


async def test_a_model_that_never_goes_to_zero_costs_no_read() -> None:
    cluster = FakeCluster("team")
    cluster.get = cluster.list = None  # type: ignore[method-assign, assignment]

    assert await Activators(cluster).seen_in(KEY, world()) == world()


def test_what_waits_wakes_a_reconcile_and_our_own_status_does_not() -> None:
    echoes, metadata = Echoes(), {"uid": "u", "generation": 1}

    def event(status: Raw) -> Any:
        return {"type": "MODIFIED", "object": {"kind": names.DEPLOYMENT_KIND, "metadata": metadata, "status": status}}

    echoes.only_status_changed(event({}))
    assert echoes.only_status_changed(event({"replicas": 1}))
    assert not echoes.only_status_changed(event({"replicas": 1, "demand": [{"activator": "a1", "waiting": 1}]}))
    assert echoes.only_status_changed(event({"replicas": 2, "demand": [{"activator": "a1", "waiting": 1}]}))
    assert not echoes.only_status_changed(event({"replicas": 2}))


async def test_the_operator_never_writes_what_waits() -> None:
    cluster = FakeCluster("team")
    demand = [{"activator": "a1", "waiting": 1, "at": "2026-01-01T00:00:00Z"}]
    stored = cluster.put({**told_port("chat", 20001), "status": {}})
    of = {**stored, "status": {"replicas": 1, "demand": demand}}
    writer = StatusWriter(cluster)

    assert await writer.write(of, {"replicas": 1, "demand": demand}) is None
    assert await writer.write(of, {"replicas": 2, "demand": demand}) is not None
    (written,) = cluster.all_of(DEPLOYMENTS.plural)
    assert written["status"] == {"replicas": 2}


async def test_every_write_of_the_way_to_zero_and_back_reaches_the_cluster() -> None:
    cluster, site = FakeCluster("team"), Site()
    stored = cluster.put({**site.deployment, "status": {}})
    site.deployment = {**site.deployment, "metadata": {**site.deployment["metadata"], "uid": stored["metadata"]["uid"]}}
    kinds = set()
    for _ in range(40):
        effects = site.look().effects
        made = [each for each in effects if isinstance(each, Create | Delete) and _kind(each) == "EndpointSlice"]
        kinds |= {type(each).__name__ for each in made}
        for each in made:
            assert (await execute(cluster, KEY, [each])).stale is None or isinstance(each, Delete)
        if site.state == "AtZero":
            site.hold("a1", 1)
        site.tick(10)

    assert kinds == {"Create", "Delete"}


def _kind(effect: Create | Delete) -> str:
    return effect.kind if isinstance(effect, Delete) else str(effect.manifest["kind"])


async def test_a_dead_activators_entry_is_taken_out_in_its_name_and_no_other() -> None:
    cluster = FakeCluster("team")
    cluster.put({**told_port("chat", 20001), "status": {}})
    for activator in ("a1", "a2"):
        entry = {"activator": activator, "waiting": 1, "at": "2026-01-01T00:00:00Z"}
        await cluster.apply_status(_header(cluster) | {"status": {"demand": [entry]}}, f"{names.ACTIVATOR}-{activator}")
    await execute(cluster, KEY, [Forget("a1", _header(cluster) | {"status": {}})])

    (left,) = cluster.all_of(DEPLOYMENTS.plural)
    assert [each["activator"] for each in left["status"]["demand"]] == ["a2"]


def _header(cluster: FakeCluster) -> Raw:
    (stored,) = cluster.all_of(DEPLOYMENTS.plural)
    return {key: stored[key] for key in ("apiVersion", "kind", "metadata")}


def test_tokens_are_handed_on_as_sums(tmp_path: Any) -> None:
    path = tmp_path / "token"
    path.write_text("one\ntwo\n")
    pod = {"POD_NAMESPACE": "system"}
    options = parse(["--worker-image=worker:1", f"--caller-token-file={path}"], pod)

    assert [each[:8] for each in options.settings.callers] == ["7692c3ad", "3fc4ccfe"]
    path.write_text("")
    with pytest.raises(OptionsError, match="holds no token"):
        parse(["--worker-image=worker:1", f"--caller-token-file={path}"], pod)
