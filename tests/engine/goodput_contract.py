"""What goodput relies on in an engine: each request judged once by the engine's own notes. Part of test_contract.py."""

import json

from worker_process import NAME, Worker

STRICT = {"name": "strict", "ttft_s": 1e-6, "tpot_s": 1e-7}
"""An objective that no engine keeps."""
_FINISHED = ("met", "late_ttft", "late_tpot", "late_both")


async def judges_requests(worker: Worker) -> None:
    """One answer of several sequences is one request, streamed or not; limits of the named objective decide."""
    digest = json.loads((worker.folder / "promise.json").read_text())["digest"]
    before = await _counted(worker, digest)
    many = {"model": NAME, "prompt": "hello there", "max_tokens": 5, "ignore_eos": True, "n": 3}
    assert (await worker.api("/v1/completions", body=many)).status == 200
    for stream in (False, True):
        body = {"model": NAME, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "stream": stream}
        headers = {"x-modelfleet-objective": "strict"}
        assert (await worker.api("/v1/chat/completions", body=body | {"ignore_eos": True}, **headers)).status == 200
    await worker.until(lambda: _have_ended(worker, digest, before, chat=1, strict=2))
    after = await _counted(worker, digest)
    assert after["strict", "late_both"] - before["strict", "late_both"] == 2
    assert after["chat", "unmeasured"] == after["strict", "unmeasured"] == 0
    page = await worker.metrics()
    assert page[f'modelfleet_output_tokens_sum{{objective="strict",promise="{digest}"}}'] == 10
    assert page['modelfleet_engine_kv_tokens{kv="total"}'] > 0
    assert page["modelfleet_engine_generation_tokens_total"] >= 25
    assert sum(value for series, value in page.items() if series.startswith("modelfleet_engine_steps_total")) > 0
    await _takes_another_promise(worker, digest)


async def _takes_another_promise(worker: Worker, digest: str) -> None:
    """Another promise is taken while the engine serves, and the counts of the one before stay beside it."""
    path = worker.folder / "promise.json"
    later = json.loads(path.read_text()) | {"digest": digest[::-1]}
    path.write_text(json.dumps(later))

    async def taken() -> bool:
        return f'modelfleet_promise_info{{promise="{digest[::-1]}"}}' in await worker.metrics()

    await worker.until(taken)
    assert (await _counted(worker, digest[::-1]))["chat", "met"] == 0
    assert (await _counted(worker, digest))["strict", "late_both"] >= 2


async def _counted(worker: Worker, digest: str) -> dict[tuple[str, str], float]:
    """Requests of the promise by objective and outcome."""
    found = {}
    for series, value in (await worker.metrics()).items():
        name, _, labels = series.partition("{")
        if name == "modelfleet_goodput_requests_total" and f'promise="{digest}"' in labels:
            parts = dict(part.split("=") for part in labels.rstrip("}").split(","))
            found[parts["objective"].strip('"'), parts["outcome"].strip('"')] = value
    return found


async def _have_ended(worker: Worker, digest: str, before: dict[tuple[str, str], float], **more: int) -> bool:
    after = await _counted(worker, digest)
    finished = {name: sum(after[name, outcome] - before[name, outcome] for outcome in _FINISHED) for name in more}
    return finished == more
