"""Prometheus as the source of samples: it and the workers themselves give the same samples."""

from dataclasses import replace
from pathlib import Path

import pytest

from fake_prometheus import FakePrometheus
from modelfleet.controller.metrics.prometheus import Prometheus
from modelfleet.controller.metrics.sampler import Indirect
from modelfleet.controller.metrics.scrape import UnreadError
from modelfleet.controller.metrics.settings import Server
from sampled import KEY, Sampled, worker
from worker_pages import Numbers, WorkerPage, good

TARGETS = [{"job": "workers", "instance": f"10.0.0.{index}:8001", "namespace": "team"} for index in range(3)]
STEPS = [
    [good(0), good(100, 2, ttft_s=[0.1] * 90 + [0.7] * 12, prompts=[100] * 102, in_flight=4)],
    [
        Numbers(),
        Numbers(arrivals=9, ended={"met": 3, "failed": 1, "aborted": 2}, longer={"met": 3}, answers=[70, 900, 20]),
    ],
]


async def ask(fake: FakePrometheus, sampled: Sampled) -> None:
    """One round against it."""
    async with fake.served() as url:
        await Indirect(sampled.book, Prometheus(Server(url=url)), 0.0).round()


async def test_both_sources_give_the_same_samples():
    direct, indirect, fake = (
        Sampled().follow(worker(0), worker(1)),
        Sampled().follow(worker(0), worker(1)),
        FakePrometheus(),
    )
    for step in range(2):
        fake.pages = []
        for index in range(2):
            page = direct.page(worker(index), STEPS[index][step], waiting=index, steps=40 * step)
            direct.read(STEPS[index][step], worker(index), waiting=index, steps=40 * step)
            fake.pages.append((TARGETS[index], page.text, fake.now))
        await ask(fake, indirect)
        assert _same(indirect) == _same(direct)
        for each in (direct, indirect):
            each.now_s += 60
        fake.now += 60


def _same(sampled: Sampled):
    """Everything but the clock: the one of the indirect source is the event loop's, which a test does not set."""
    samples = sampled.book.samples(KEY)
    return {uid: (pod.failure, [replace(each, at_s=0.0) for each in pod.readings]) for uid, pod in samples.pods.items()}


async def test_one_query_asks_for_the_whole_fleet():
    sampled, fake = Sampled().follow(*map(worker, range(3))), FakePrometheus()
    fake.pages = [(TARGETS[i], sampled.page(worker(i), good(i)).text, fake.now) for i in range(3)]
    await ask(fake, sampled)
    assert len(fake.queries) == 1
    assert all(len(pod.readings) == 1 for pod in sampled.book.samples(KEY).pods.values())


async def pages_of(fake: FakePrometheus, server: dict | None = None):
    async with fake.served() as url:
        return await Prometheus(Server(url=url, **(server or {}))).pages()


def _page(index: int = 0, **more: object) -> WorkerPage:
    return replace(Sampled().page(worker(index), good(5)), **more)


async def test_the_age_of_a_sample_is_that_of_the_scrape_not_of_the_query():
    fake = FakePrometheus()
    fake.pages = [(TARGETS[0], _page().text, fake.now - 42)]
    (page,) = await pages_of(fake)
    assert (page.origin.uid, page.age_s) == ("uid-0", pytest.approx(42))


async def test_labels_of_the_target_that_are_called_like_ours_do_not_mix_them_up():
    fake = FakePrometheus()
    target = {**TARGETS[0], "revision": "of-the-target", "objective": "of-the-target"}
    fake.pages = [(target, _page().text, fake.now)]
    plain = FakePrometheus(pages=[(TARGETS[0], _page().text, fake.now)])
    assert (await pages_of(fake))[0].found == (await pages_of(plain))[0].found


async def test_series_of_a_pod_that_is_gone_never_count():
    sampled, fake = Sampled().follow(worker(1)), FakePrometheus()
    fake.pages = [(TARGETS[i], sampled.page(worker(i), good(7)).text, fake.now) for i in range(2)]
    await ask(fake, sampled)
    samples = sampled.book.samples(KEY)
    assert (list(samples.pods), samples.gone) == (["uid-1"], ())


async def test_of_two_prometheus_behind_one_address_the_newer_sample_counts():
    sampled, fake = Sampled().follow(worker()), FakePrometheus()
    for replica, count, age_s in (("a", 5, 20), ("b", 6, 3)):
        text = sampled.page(worker(), good(count)).text
        fake.pages.append(({**TARGETS[0], "prometheus_replica": replica}, text, fake.now - age_s))
    await ask(fake, sampled)
    (only,) = sampled.book.samples(KEY).pods["uid-0"].readings
    assert next(iter(only.promises.values()))["interactive"].arrivals == 6


@pytest.mark.parametrize(
    ("status", "why"),
    [
        pytest.param(422, "Prometheus refuses the query: HTTP Status Code 422 (b'too many samples')", id="refused"),
        pytest.param(302, "Prometheus refuses the query: HTTP Status Code 302 (b'too many samples')", id="a redirect"),
    ],
)
async def test_a_refusal_is_no_data_for_every_worker_and_says_why(status: int, why: str):
    sampled, fake = Sampled().follow(worker()), FakePrometheus(status=status)
    await ask(fake, sampled)
    assert sampled.book.samples(KEY).pods["uid-0"].failure == why


async def test_a_worker_that_prometheus_does_not_know_is_no_data():
    sampled = Sampled().follow(worker())
    await ask(FakePrometheus(), sampled)
    assert sampled.book.samples(KEY).pods["uid-0"].failure == "Prometheus has no series of it"


async def test_nobody_there_and_an_unreadable_token_are_sentences(tmp_path: Path):
    with pytest.raises(UnreadError, match="cannot be asked"):
        await Prometheus(Server(url="http://127.0.0.1:1")).pages()
    with pytest.raises(UnreadError, match="the token for Prometheus cannot be read"):
        await pages_of(FakePrometheus(), {"token": tmp_path / "none"})


async def test_the_token_is_read_anew_for_each_query(tmp_path: Path):
    token, fake = tmp_path / "token", FakePrometheus()
    async with fake.served() as url:
        prometheus = Prometheus(Server(url=url, token=token))
        for text in ("one\n", "two\n"):
            token.write_text(text)
            await prometheus.pages()
    assert [headers["Authorization"] for headers in fake.headers] == ["Bearer one", "Bearer two"]
