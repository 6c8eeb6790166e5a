"""Asks the accelerators' driver in threads of their own, so that one that hangs holds up nobody."""

import asyncio
import logging

from modelfleet_worker.devices import Device, Devices, DevicesError, Xid
from modelfleet_worker.waiting import in_thread

_KEPT = 1000  # a faulty device may report one error over and over
_log = logging.getLogger(__name__)


class Driver:
    """One question at a time: a driver that hangs is not asked again before it has answered."""

    def __init__(self, devices: Devices) -> None:
        self.xids: tuple[Xid, ...] = ()
        """The critical errors so far, the last ones of many."""
        self._devices = devices
        self._asked: asyncio.Future[tuple[Device, ...]] | None = None

    async def look(self, timeout_s: float) -> tuple[Device, ...]:
        """The devices as they are now; empty where the driver gives an error, or no answer in time, which is logged."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        while True:
            if fresh := self._asked is None:
                self._asked = asyncio.ensure_future(in_thread(self._ask))
            asked = self._asked
            assert asked is not None
            done, _ = await asyncio.wait([asked], timeout=max(0.0, until_s - loop.time()))
            if not done:
                if fresh:
                    _log.warning("the accelerators' driver has not answered for %g s", timeout_s)
                return ()
            self._asked = None
            if fresh:
                return asked.result()  # that of an earlier question is old by now

    def _ask(self) -> tuple[Device, ...]:
        self.xids = (*self.xids, *self._devices.xids())[-_KEPT:]
        try:
            return tuple(self._devices.read())
        except DevicesError as error:
            _log.warning("the accelerators cannot be asked: %s", error)
            return ()
