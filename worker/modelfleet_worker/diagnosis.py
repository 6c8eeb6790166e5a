"""Why an engine ended, from its own words. Pure.

The texts are those of vLLM 0.32 and 0.33 and of the libraries below it; tests/unit/worker/test_diagnosis.py has the
lines as they were seen. A text that is not known falls back to the first exception, so that a new engine version costs
precision, not truth.
"""

import re
from collections import deque
from dataclasses import dataclass

from modelfleet_worker.failure import Failure, Reason

_LOG_LINES = 40
_LINE_CHARACTERS = 400

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
# "(EngineCore pid=11) ERROR 11-29 17:54:29 [core.py:1] ": differs at each start, and would make a status move.
_PREFIX = re.compile(
    r"^(?:\([\w ]+ pid=\d+\)\s?)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:]{8} \[[^]]*\]\s?)?"
)
_API_SERVER = re.compile(r"\(API_?Server", re.IGNORECASE)  # one is APIServer, one of several is ApiServer_3
_ACCESS = re.compile(r'[A-Z]+:\s+\S+ - "')  # uvicorn's
DUMP = "Dumping scheduler output for model execution"
"""How vLLM begins the line with the step that it died in."""
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S")
# Said about the death of another process, whose own words are the cause.
_ECHO = re.compile(
    r"Engine core initialization failed|EngineDeadError|EngineCore encountered|WorkerProc initialization failed"
)
_CORE_DEAD, _CORE_SPOKE = re.compile(r"EngineDeadError"), re.compile(r"EngineCore encountered a fatal error")
_WORKER_DIED = re.compile(r"Worker proc \S+ died unexpectedly(?: \(exit code: (?P<code>-?\d+))?")


@dataclass(frozen=True)
class _Rule:
    reason: Reason
    pattern: re.Pattern[str]
    remedy: str


def _rule(reason: Reason, remedy: str, *texts: str) -> _Rule:
    return _Rule(reason, re.compile("|".join(texts)), remedy)


# In the order of who wins: a lack of memory also breaks other things, whose words come later.
_RULES = (
    _rule(
        Reason.KV_CACHE_TOO_SMALL,
        "Lower spec.model.maxContextTokens to what the message says fits, or give the KV cache more memory.",
        r"To serve at least one request with the model's max seq len",
        r"No available memory for the cache blocks",
    ),
    _rule(
        Reason.ENGINE_OUT_OF_MEMORY,
        "Use more or larger accelerators for a replica, lower the memory that engine.args ask for, and see that"
        " nothing else uses the device.",
        r"OutOfMemoryError",
        r"out of memory",
        r"not enough GPU memory",
        r"is less than desired (?:GPU|CPU) memory utilization",
        r"is less than requested memory for kv",
        r"MemoryError",
        r"Cannot allocate memory",
        r"No space left on device: '/(?:psm|dev/shm)",
    ),
    _rule(
        Reason.DISK_FULL,
        "Free room there, or raise the limit of that volume.",
        r"No space left on device",
        r"Disk quota exceeded",
    ),
    _rule(
        Reason.WEIGHTS_DAMAGED,
        "Copy the model's weights again.",
        r"SafetensorError|Error while deserializing header",
    ),
    _rule(
        Reason.MODEL_REFUSED,
        "Change the setting that does not fit the model, or serve another model, or use an engine that knows it.",
        r"is greater than the derived max_model_len",
        r"must be divisible by tensor parallel size",
        r"Model architectures .* (?:are not supported|failed to be inspected)",
        r"does not recognize this architecture",
        r"Please pass the argument `trust_remote_code=True`",
        r"contains custom code which must be executed",
        r"Cannot find the config file for",
        r"Cannot find any model weights",
        r"UnpicklingError",
        r"There is no module or parameter named",
        r"weights were not initialized from checkpoint",
        r"Attempted to load weight .* into parameter",
        r"It looks like the config file at .* is not a valid JSON",
        r"(?:Can't|Couldn't|Failed to|Unable to) (?:load|instantiate)[\w ]* tokenizer",
        r"Unsupported CPU attention configuration",
        r"Head size .* is not supported",
    ),
    _rule(
        Reason.ENGINE_ARGUMENTS_REFUSED,
        "Correct spec.engine.args.",
        r"vllm: error: |vllm serve: error: ",
        r"unrecognized arguments",
        r"max_num_batched_tokens .* is smaller than",
        r"is not supported on current platform",
        r"quantization is currently not supported",
        r"Not enough allowed NUMA nodes",
        r"validation errors? for \w*Config",
        r"invalid (?:tool call|reasoning) parser",
    ),
    _rule(
        Reason.MODEL_NOT_FOUND,
        "Correct the path in spec.model.source, or put the model's whole folder there.",
        r"HFValidationError|LocalEntryNotFoundError|RepositoryNotFoundError",
        r"does not appear to have a file named",
        r"Invalid repository ID or local directory specified",
    ),
    _rule(
        Reason.ENGINE_START_TIMEOUT,
        "See in the log what the engine waited for; a slow volume is the usual cause.",
        r"Timed out waiting for engine core processes to start",
    ),
)
_DID = {
    Reason.KV_CACHE_TOO_SMALL: "The KV cache has no room for one request",
    Reason.ENGINE_OUT_OF_MEMORY: "The engine ran out of memory",
    Reason.DISK_FULL: "A file system that the engine writes to is full",
    Reason.WEIGHTS_DAMAGED: "The engine cannot read the weights",
    Reason.MODEL_REFUSED: "The engine refused the model",
    Reason.ENGINE_ARGUMENTS_REFUSED: "The engine refused an argument",
    Reason.MODEL_NOT_FOUND: "The engine did not find the model",
    Reason.ENGINE_START_TIMEOUT: "The engine gave up starting",
}
# The names of exceptions and programs say nothing to a user; behind the first sentence come vLLM's own flags and links.
_NAMES = re.compile(r"^(?:(?:[A-Za-z_]\w*\.)*\w+(?:Error|Exception): |Value error, |[\w.]+(?: serve)?: error: )")
_FURTHER = re.compile(r"(?<=.{40})\. (?=[A-Z])| \[type=")
_ONE_REQUEST = re.compile(r"max seq len \((?P<wanted>\d+)\).*estimated maximum model length is (?P<fits>\d+)")
_OF_ANY_PHASE = {Reason.ENGINE_OUT_OF_MEMORY, Reason.DISK_FULL}
_LOOK = "Look at the log of the worker's container (kubectl logs --previous)."


class Evidence:
    """What an engine said: the last lines, and the first line for each rule. Holds a bounded amount."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=_LOG_LINES)
        self._first: dict[Reason, str] = {}
        self._exception = ""
        self._worker_died = self._core_dead = self._core_spoke = False
        self._worker_code: int | None = None
        self._serves = False

    def add(self, line: str) -> None:
        """Takes in one line as the engine wrote it."""
        words = clean(line)
        if not words or is_access(line):
            return
        self._last.append(words)
        if DUMP in words:  # it holds names that clients chose for their requests
            return
        for rule in () if self._serves and of_api_server(line) else _RULES:
            if rule.reason not in self._first and rule.pattern.search(words):
                self._first[rule.reason] = words
        if not self._exception and _EXCEPTION.match(words) and not _ECHO.search(words):
            self._exception = words
        self._core_dead = self._core_dead or _CORE_DEAD.search(words) is not None
        self._core_spoke = self._core_spoke or _CORE_SPOKE.search(words) is not None
        if died := _WORKER_DIED.search(words):
            self._worker_died = True
            self._worker_code = int(died["code"]) if died["code"] else self._worker_code

    def forget_start(self) -> None:
        """The engine serves: warnings of the start no longer explain anything, nor does what its API server says of a
        request, whose words may be the client's."""
        self._serves = True
        self._first.clear()
        self._exception = ""

    @property
    def log(self) -> str:
        """The last lines."""
        return "\n".join(self._last)

    def failure(self, exit_code: int, phase: str) -> Failure:
        """Why the engine ended with `exit_code` (negative for a signal) in `phase`, which nobody had asked for."""
        reason, message, remedy = self._cause(exit_code, phase)
        return Failure(reason=reason, message=message, remedy=remedy, exit_code=exit_code, phase=phase, log=self.log)

    def _cause(self, exit_code: int, phase: str) -> tuple[Reason, str, str]:
        starting = phase == "starting"
        for rule in _RULES:
            # Once it served, its arguments and its model were accepted: words like those are then about a request.
            if rule.reason in self._first and (starting or rule.reason in _OF_ANY_PHASE):
                return rule.reason, _told(rule.reason, self._first[rule.reason]), rule.remedy
        if starting and exit_code == 2:
            said = self._last[-1] if self._last else "it said nothing"
            reason = Reason.ENGINE_ARGUMENTS_REFUSED
            return reason, _told(reason, said), "Correct spec.engine.args."
        doing = {"starting": "while it started", "serving": "while it served", "draining": "while it drained"}[phase]
        message = f"The engine ended {doing}, {_how(exit_code)}"
        if self._worker_died:
            message += f", after one of its workers ended {_how(self._worker_code)}"
        elif self._core_dead and not self._core_spoke and not starting:
            message += ", after its engine core ended without a word"
        elif self._exception:
            message += f": {_sentence(self._exception)}"
        killed = -9 in (exit_code, self._worker_code)
        remedy = "A kill by signal 9 is mostly the kernel's for lack of memory. " + _LOOK if killed else _LOOK
        return Reason.ENGINE_START_FAILED if starting else Reason.ENGINE_DIED, f"{message}.", remedy


def of_api_server(line: str) -> bool:
    """Whether a process that answers clients said this, and not one that computes."""
    return _API_SERVER.match(_ANSI.sub("", line[:_LINE_CHARACTERS]).lstrip()) is not None


def is_access(line: str) -> bool:
    """Whether this is a line of the access log, whose words are a client's."""
    return _ACCESS.match(_ANSI.sub("", line[:_LINE_CHARACTERS]).lstrip()) is not None


def clean(line: str) -> str:
    """A line without colours, process ids and times, cut to a bounded length."""
    return _PREFIX.sub("", _ANSI.sub("", line).strip())[:_LINE_CHARACTERS].strip()


def _told(reason: Reason, words: str) -> str:
    """What happened, as a sentence, from the engine's words."""
    if found := _ONE_REQUEST.search(words):
        return f"{_DID[reason]} of {found['wanted']} tokens; {found['fits']} tokens would fit."
    said = _FURTHER.split(_NAMES.sub("", words), maxsplit=1)[0]
    return f"{_DID[reason]}: {_sentence(said)}."


def _sentence(words: str) -> str:
    return words.rstrip(". ")


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "without a known exit code"
    return f"killed by signal {-exit_code}" if exit_code < 0 else f"with exit code {exit_code}"
