"""What conditions say while no replica serves by our own choice, or is about to. Pure; None: as for any deployment."""

from modelfleet.api.reasons import Reason
from modelfleet.api.zero_status import ZeroState
from modelfleet.core.scaling.zero import SILENT_S
from modelfleet.core.situation import Situation
from modelfleet.core.verdict import Verdict, no, yes
from modelfleet.core.zero_report import refusal

_LOOK = "install the chart with activator.enabled=true, or look at the activator's pods"


def zero_available(s: Situation) -> Verdict | None:
    """
    | a replica serves, no wish, or it serves by its state and no activator stands in | as for any |
    | a request would be refused (`refusal`) | False, that reason |
    | no activator answers through the Service | False, ActivatorSilent |
    | replicas start | True, Waking |
    | else | True, AtZero |
    """
    zero = s.zero
    if zero is None or s.serving or s.intent.wish is None:
        return None
    answer = s.world.activator
    if zero.state is ZeroState.SERVING and (answer is None or not answer.proven):
        return None
    refused = refusal(s)
    if refused is not None:
        known = next((each for each in Reason if each == refused.reason), Reason.WAKE_FAILED)
        return no(known, refused.message)
    if answer is not None and not answer.proven:
        return no(Reason.ACTIVATOR_SILENT, f"no replica runs, and no activator answers: {answer.why}; {_LOOK}")
    if zero.state in (ZeroState.WAKING, ZeroState.SERVING):
        count = f"{s.wanted} replica{'' if s.wanted == 1 else 's'}"
        return yes(
            Reason.WAKING, f"{count} start{'s' if s.wanted == 1 else ''}; the activator holds requests meanwhile"
        )
    return yes(Reason.AT_ZERO, "no replica runs; the activator holds the next request and wakes as many as it needs")


def zero_progressing(s: Situation) -> Verdict | None:
    """
    | at zero, and nothing is left | False, AtZero |
    | leaving, and no activator has answered for a while | False, ActivatorSilent |
    | leaving | True, GoingToZero |
    | else | as for any |
    """
    zero = s.zero
    if zero is None or zero.state not in (ZeroState.AT_ZERO, ZeroState.LEAVING):
        return None
    if zero.state is ZeroState.AT_ZERO:
        return no(Reason.AT_ZERO, f"no replica runs: {zero.why}") if not s.fleet else None
    answer = s.world.activator
    if answer is not None and not answer.proven and answer.silent_s >= SILENT_S:
        stay = "the replicas stay" if zero.replicas else "the replicas end all the same"
        return no(Reason.ACTIVATOR_SILENT, f"{zero.why}, and no activator answers: {answer.why}; {stay}; {_LOOK}")
    step = "the replicas end" if not zero.replicas else "it is proved first that an activator answers"
    return yes(Reason.GOING_TO_ZERO, f"{zero.why}; {step}")
