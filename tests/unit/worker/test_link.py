"""A connection between members: what cannot be sent or understood ends no task with a traceback."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from modelfleet_worker.group import Lead
from modelfleet_worker.link import Link, LinkLostError, connect
from modelfleet_worker.member import Member
from modelfleet_worker.plan import Group
from modelfleet_worker.state import Progress
from worker_process import free_port

MEMBER = Member(
    group=Group(nodes=2, data=1, master_port=1), rank=0, leader="me", token="right", address="127.0.0.1", node="a"
)


@asynccontextmanager
async def served(answers: Callable[[Link], Awaitable[None]]) -> AsyncIterator[Link]:
    """Our side of a connection, whose other side `answers`."""

    async def arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer)
        await answers(link)
        await link.close()

    server = await asyncio.start_server(arrived, "127.0.0.1", 0)
    link = await connect("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield link
    finally:
        await link.close()
        server.close()


async def test_a_name_that_is_no_text_is_said_with_question_marks() -> None:
    async def answers(link: Link) -> None:
        link.say("failed", message="weights-\udcff.bin")

    async with served(answers) as link:
        assert (await link.hear())["message"] == "weights-?.bin"


@pytest.mark.parametrize("line", [b"[" * 9000, b"\xff", b"{}", b'{"say": []}', b"x" * 100_000], ids=len)
async def test_nonsense_loses_the_connection(line: bytes) -> None:
    async def answers(link: Link) -> None:
        link._writer.write(line + b"\n")

    async with served(answers) as link:
        with pytest.raises(LinkLostError, match="does not understand"):
            await link.hear()


async def test_a_stranger_whose_token_is_no_text_is_refused() -> None:
    lead = Lead(MEMBER, port := free_port(), Progress(0.0), lambda _: None)
    await lead.open()
    link = await connect("127.0.0.1", port)
    link._writer.write(b'{"say": "hello", "token": "\\ud800", "rank": "1"}\n')
    assert (await link.hear())["say"] in ("refused", "beat")
    await link.close()
    await lead.close(None)
