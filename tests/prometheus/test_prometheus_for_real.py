"""The operator's source against a real Prometheus: the cases of the fake, and what no fake can say."""

from pathlib import Path

import pytest
from real_prometheus import PageServer, RealPrometheus

import prometheus_cases
from modelfleet.controller.metrics.prometheus import Prometheus
from modelfleet.controller.metrics.sampler import Indirect
from modelfleet.controller.metrics.scrape import UnreadError
from modelfleet.controller.metrics.settings import Server
from modelfleet_local.pki import Authority
from prometheus_cases import CASES, ask, page, target
from sampled import KEY, Sampled, worker

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def pages():
    with PageServer().served() as found:
        yield found


@pytest.fixture(scope="module")
def shared(pages: PageServer, tmp_path_factory: pytest.TempPathFactory):
    server = RealPrometheus(tmp_path_factory.mktemp("prometheus"), pages)
    with server.running():
        yield server


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
async def test_a_real_prometheus_does_as_the_fake(shared: RealPrometheus, case):
    await case(shared)


async def test_a_target_that_answers_no_more_is_no_data_and_comes_back(shared: RealPrometheus):
    sampled = Sampled().follow(worker(50))
    await shared.scrape((target(50), page(50).text))
    await ask(shared, sampled)
    assert sampled.book.samples(KEY).pods["uid-50"].failure is None
    texts, shared.pages.texts = shared.pages.texts, {}
    await shared.has_scraped()
    await ask(shared, sampled)
    dead = sampled.book.samples(KEY).pods["uid-50"]
    assert (dead.failure, len(dead.readings)) == ("Prometheus has no series of it", 1)
    shared.pages.texts = texts
    await shared.has_scraped()
    await ask(shared, sampled)
    assert sampled.book.samples(KEY).pods["uid-50"].failure is None


async def test_one_that_was_cut_off_repeats_its_last_sample_with_the_age_it_has(pages: PageServer, tmp_path: Path):
    """It was started again, and scrapes nothing: what it stored it shows for five minutes more."""
    server, sampled = RealPrometheus(tmp_path, pages), Sampled().follow(worker(960))
    with server.running():
        await server.scrape((target(960), page(960).text))
    (path,) = (each for each, text in pages.texts.items() if 'uid-960"' in text)
    asked = pages.asked[path]
    with server.running(scraping=False):
        operator = Indirect(sampled.book, Prometheus(Server(url=server.url)), 0.0)
        for _ in range(3):
            before = server.now
            age_s = (await prometheus_cases.pages(server))["uid-960"].age_s
            # Its last scrape began before it asked for the page, and after it had asked for the one before.
            assert before - asked[-1] - 0.01 <= age_s <= server.now - asked[-2] + 0.01
            await operator.round()
    pod = sampled.book.samples(KEY).pods["uid-960"]
    assert (len(pod.readings), pod.failure) == (1, None), "the same sample again is none"


async def test_a_refusal_is_a_sentence_with_its_own_words(pages: PageServer, tmp_path: Path):
    server = RealPrometheus(tmp_path, pages)
    with server.running("--query.max-samples=50"):
        await server.scrape((target(70), page(70).text))
        with pytest.raises(UnreadError) as refused:
            await prometheus_cases.found(Prometheus(Server(url=server.url)))
    why = "query processing would load too many samples into memory in query execution"
    assert str(refused.value) == f"Prometheus refuses the query: {why}"


async def test_one_behind_tls_is_read_with_its_authority_and_not_without(pages: PageServer, tmp_path: Path):
    authority = Authority(tmp_path, "prometheus")
    own = authority.server("prometheus", ["127.0.0.1"])
    web = {"tls_server_config": {"cert_file": str(own.certificate), "key_file": str(own.key)}}
    server = RealPrometheus(tmp_path, pages, scheme="https", verify=str(authority.certificate))
    with server.running(web=web):
        await server.scrape((target(80), page(80).text))
        (found,) = await prometheus_cases.found(Prometheus(Server(url=server.url, authority=authority.certificate)))
        assert found.origin.uid == "uid-80"
        with pytest.raises(UnreadError, match=r"^Prometheus cannot be asked \(SSLError\)$"):
            await prometheus_cases.found(Prometheus(Server(url=server.url)))
        with pytest.raises(
            UnreadError, match=r"^the certificate authority for Prometheus cannot be read: .*none\.crt$"
        ):
            await prometheus_cases.found(Prometheus(Server(url=server.url, authority=tmp_path / "none.crt")))
