"""`modelfleet-worker serve --plan FILE`, the program of a worker's container, and before it `fetch` and `inspect`.

Signals are blocked until each command says what they do.
"""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from modelfleet.api import names
from modelfleet_worker.failure import FULL, Failure, Reason
from modelfleet_worker.fetch.held import held
from modelfleet_worker.fetch.order import Order, OrderError, credentials, parse_order
from modelfleet_worker.inspect import inspect
from modelfleet_worker.member import from_environment
from modelfleet_worker.plan import Plan, PlanError, parse_plan

_FAILED = 1
_INSPECT_S = 120
_ENDED_BY_SIGTERM = 143
_log = logging.getLogger("modelfleet_worker")


class _TooLongError(Exception):
    """The volume does not answer. No OSError: those are caught where files are read, and mean the file."""


def run(argv: Sequence[str] | None) -> int:
    """Exit status 0 after a drain that was asked for or a report, else 1 with the reason in the termination log."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s modelfleet-worker: %(message)s", stream=sys.stderr
    )
    end = _ran(arguments)
    if end is None:
        return 0
    if isinstance(end, Failure):
        _log.error("%s: %s %s", end.reason, end.message, end.remedy)
    try:
        arguments.termination_log.write_text(end.to_json() if isinstance(end, Failure) else end)
    except OSError as error:
        _log.error("the termination log cannot be written: %s", error)
        return _FAILED
    return _FAILED if isinstance(end, Failure) else 0


def _ran(arguments: argparse.Namespace) -> str | Failure | None:
    """How the command ended. Whatever breaks, there is a reason in the termination message."""
    try:
        end: str | Failure | None = arguments.run(arguments)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        message = f"The worker cannot go on: {error.strerror or error}{where}."
        if error.errno in FULL:
            return Failure(reason=Reason.DISK_FULL, message=message, remedy="Raise the limit of that volume.")
        remedy = "Look at the port, program or volume that is named; it is tried again by itself."
        return Failure(reason=arguments.breaks, message=message, remedy=remedy)
    except Exception as error:
        _log.exception("this is a fault of the worker")
        message = f"The worker itself has a fault: {type(error).__name__}: {error}."
        remedy = "Report it with the log of the worker's container (kubectl logs --previous)."
        return Failure(reason=arguments.breaks, message=message, remedy=remedy)
    return end


@contextmanager
def _ends_at_once() -> Iterator[None]:
    """Inside, a stop ends this process: it has nothing to finish."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: os._exit(_ENDED_BY_SIGTERM)) for number in numbers}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _inspect(arguments: argparse.Namespace) -> str | Failure:
    def give_up(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_INSPECT_S)
    try:
        with _ends_at_once():
            return _report(arguments)
    except _TooLongError:
        where = arguments.source[0]
        message = f"{where} could not be read within {_INSPECT_S} s."
        reason = Reason.MODEL_NOT_FOUND if where.startswith("/") else Reason.FETCH_FAILED
        return Failure(reason=reason, message=message, remedy="Look at the volume or the server.")
    finally:
        signal.alarm(0)


def _report(arguments: argparse.Namespace) -> str | Failure:
    if not arguments.source[0].startswith("/"):
        return _look(arguments)
    if len(arguments.source) > 1:  # a folder, and variants that are fetched
        return _look(arguments, Path(arguments.source[0]))
    return inspect(Path(arguments.source[0]))


def _look(arguments: argparse.Namespace, folder: Path | None = None) -> str | Failure:
    # Imported late: only here are the packages of the extra `fetch` needed.
    from modelfleet_worker.fetch.look import Look, look

    texts = arguments.source if folder is None else arguments.source[1:]
    allowed = [each == "Allow" for each in (arguments.pickled_weights, arguments.remote_code)]
    return look(Look(tuple(texts), arguments.endpoint, credentials(os.environ), *allowed), folder)


def _serve(arguments: argparse.Namespace) -> Failure | None:
    try:
        plan = _read_plan(arguments.plan)
        member = from_environment(plan.group, os.environ) if plan.group else None
    except PlanError as error:
        remedy = "Use a worker image of the operator's version."
        return Failure(reason=Reason.PLAN_UNREADABLE, message=f"{error}.", remedy=remedy)
    # Imported late: these take longest, and a plan that cannot be read should be said at once.
    from modelfleet_worker.follower import Follower
    from modelfleet_worker.supervisor import Places, Supervisor

    places = Places(
        http_port=arguments.http_port,
        status_port=arguments.status_port,
        group_port=arguments.group_port,
        runtime=arguments.runtime_folder,
        promise=arguments.promise,
        termination_log=arguments.termination_log.absolute(),
        scratch=arguments.scratch_folder,
    )

    async def live() -> Failure | None:
        if member is not None and member.rank:
            return await Follower(plan, member, places).run()
        return await Supervisor(plan, places, member).run()

    order = _order(arguments.plan)
    if isinstance(order, Failure):
        return order
    with held(order, socket.gethostname(), Path(names.USE_MOUNT)):
        return asyncio.run(live())


def _fetch(arguments: argparse.Namespace) -> Failure | None:
    # Imported late: only here are the packages of the extra `fetch` needed.
    from modelfleet_worker.fetch.kept import kept
    from modelfleet_worker.fetch.run import Errand, fetch

    order = _order(arguments.plan)
    if isinstance(order, Failure) or order is None:
        return order
    secret = credentials(os.environ)
    asks = socket.gethostname()
    runtime, port = arguments.runtime_folder, arguments.status_port
    with _ends_at_once():  # what came stays, and the next start goes on there
        end = gives_up(arguments.termination_log)
        errand = Errand(order=order, secret=secret, pod=asks, runtime=runtime, port=port, give_up=end)
        failure = fetch(errand)
        if failure is None and order.shared:
            _tell(arguments.termination_log, kept(order.root))
        return failure


def gives_up(termination_log: Path) -> Callable[[Failure], None]:
    """What ends this process with a failure from whichever thread: the one that would may hang in the kernel."""

    def give_up(failure: Failure) -> None:
        _log.error("%s: %s %s", failure.reason, failure.message, failure.remedy)
        _tell(termination_log, failure.to_json())
        os._exit(_FAILED)

    return give_up


def _tell(path: Path, report: str) -> None:
    """What nothing depends on: the container ends as it does, whether it is told or not."""
    try:
        path.write_text(report)
    except OSError as error:
        _log.warning("the termination log cannot be written: %s", error)


def _order(path: Path) -> Order | Failure | None:
    try:
        return parse_order(path.read_text())
    except (OSError, UnicodeDecodeError, OrderError) as error:
        remedy = "Use a worker image of the operator's version."
        return Failure(reason=Reason.PLAN_UNREADABLE, message=f"{path}: {error}.", remedy=remedy)


def _read_plan(path: Path) -> Plan:
    try:
        return parse_plan(path.read_text())
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is not text") from error


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:9]) < 65536:
        raise argparse.ArgumentTypeError("a port from 1 to 65535")
    return int(text)


def _folder(text: str) -> Path:
    return Path(text).absolute()  # the engine works in another folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="modelfleet-worker", description="Supervises one engine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    log = Path("/dev/termination-log")
    look = commands.add_parser("inspect", help="say what the model in a folder is made of")
    look.set_defaults(run=_inspect, breaks=Reason.FETCH_FAILED)
    where = "the model's folder with its config.json, and addresses whose revisions are asked for, the model's first"
    look.add_argument("source", nargs="+", metavar="FOLDER|SOURCE", help=where)
    look.add_argument("--endpoint", default="", help="the server of hf:// or s3:// sources")
    for flag in ("--pickled-weights", "--remote-code"):
        look.add_argument(flag, choices=("Refuse", "Allow"), default="Refuse", help="default: %(default)s")
    look.add_argument("--termination-log", type=Path, default=log, help="where the report goes; default: %(default)s")
    serve = commands.add_parser("serve", help="serve the model of a plan until SIGTERM")
    serve.set_defaults(run=_serve, breaks=Reason.ENGINE_START_FAILED)
    option = serve.add_argument
    option("--plan", type=Path, required=True, help="plan.json, as the operator writes it")
    option("--termination-log", type=Path, default=log, help="default: %(default)s")
    promise = Path(names.PROMISE_MOUNT, names.PROMISE_KEY)
    option("--promise", type=_folder, default=promise, help="what requests are judged by; default: %(default)s")
    option("--runtime-folder", type=_folder, default=Path("/run/modelfleet"), help="default: %(default)s")
    option(
        "--scratch-folder", type=_folder, default=Path("/tmp"), help="where the engine may write; default: %(default)s"
    )
    option("--http-port", type=_port, default=names.HTTP_PORT, help="the engine's API; default: %(default)s")
    option("--group-port", type=_port, default=names.GROUP_PORT, help="a group's leader's; default: %(default)s")
    option("--status-port", type=_port, default=names.STATUS_PORT, help="probes and metrics; default: %(default)s")
    bring = commands.add_parser("fetch", help="fetch the weights of a plan, if they come from a server")
    bring.set_defaults(run=_fetch, breaks=Reason.FETCH_FAILED)
    bring.add_argument("--plan", type=Path, required=True, help="plan.json, as the operator writes it")
    bring.add_argument("--termination-log", type=Path, default=log, help="default: %(default)s")
    bring.add_argument("--runtime-folder", type=_folder, default=Path("/run/modelfleet"), help="default: %(default)s")
    bring.add_argument("--status-port", type=_port, default=names.STATUS_PORT, help="/metrics; default: %(default)s")
    return parser
