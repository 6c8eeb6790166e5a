"""One engine process: started, its output passed on and remembered, its end noticed, stopped with SIGTERM."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader

from modelfleet_worker import processes
from modelfleet_worker.diagnosis import Evidence
from modelfleet_worker.failure import Failure

_LINE_LIMIT_BYTES = 64 * 1024
_OUTPUT_TIMEOUT_S = 2.0
_log = logging.getLogger(__name__)


class Engine:
    """A running engine. Make it inside the event loop, after the loop's signal handlers stand."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], folder: str, heard: Sequence[Callable[[str], None]] = ()
    ) -> None:
        """Starts `argv` in `folder`. Each of `heard` is told every line, in the reader's thread.

        Raises OSError if it cannot be run.
        """
        self._evidence = Evidence()
        self._heard = list(heard)
        self._ended = asyncio.Event()
        # A session of its own: a Ctrl-C in a terminal reaches us alone, and SIGINT makes vLLM hang while it starts.
        self._process = subprocess.Popen(
            argv,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert isinstance(self._process.stdout, BufferedReader)
        self._output = threading.Thread(target=self._pass_on, args=(self._process.stdout,), daemon=True)
        self._output.start()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._child_ended)
        self._child_ended()  # it may have ended before the handler stood

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    async def ended(self) -> None:
        """Returns once the engine's main process has ended."""
        await self._ended.wait()

    def serves(self) -> None:
        """From now on an end is explained by what was said from now on."""
        self._evidence.forget_start()

    async def stop(self, timeout_s: float) -> bool:
        """Asks the engine to end and waits; whether it did. Never SIGINT, see above."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.ended()
        return not self.alive

    def failure(self, phase: str) -> Failure:
        """Why it ended; call this when all its processes are gone, so that their last words have arrived."""
        self._output.join(_OUTPUT_TIMEOUT_S)
        code = self._process.returncode
        assert code is not None, "asked why an engine ended that runs"
        return self._evidence.failure(code, phase)

    @property
    def log(self) -> str:
        """The last lines of its output."""
        return self._evidence.log

    def _tell(self, text: str) -> None:
        for heard in tuple(self._heard):
            try:
                heard(text)
            except Exception:  # whoever it is must not stop the reader, on whose pace the engine depends
                self._heard.remove(heard)
                _log.exception("%s hears no more", heard)

    def _child_ended(self) -> None:
        processes.reap(self._process.pid)
        if self._process.poll() is not None:
            processes.reap(None)
            self._ended.set()

    def _pass_on(self, stream: BufferedReader) -> None:
        """Copies the output to ours line by line, which is the container's log. A progress bar's states, which end with
        a carriage return, are lines too. Runs in a thread of its own."""
        rest = b""
        while chunk := stream.read1(_LINE_LIMIT_BYTES):
            lines = (rest + chunk).splitlines(keepends=True)
            rest = b"" if lines[-1].endswith((b"\n", b"\r")) else lines.pop()
            for line in lines:
                self._take(line)
            while len(rest) >= _LINE_LIMIT_BYTES:
                self._take(rest[:_LINE_LIMIT_BYTES])
                rest = rest[_LINE_LIMIT_BYTES:]
        if rest:
            self._take(rest)

    def _take(self, line: bytes) -> None:
        for start in range(0, len(line), _LINE_LIMIT_BYTES):
            text = line[start : start + _LINE_LIMIT_BYTES].decode(errors="replace")
            self._evidence.add(text)
            self._tell(text)
        with suppress(OSError, ValueError):  # nobody reads the log any more; the engine must not block on that
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
