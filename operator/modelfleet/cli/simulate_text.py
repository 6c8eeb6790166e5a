"""What a simulation found, as a table and as a JSON document."""

from collections.abc import Sequence
from typing import Any

from modelfleet.sim.contest import ORACLE, OURS, Curve, Point, cost_at
from modelfleet.sim.world import World

VERSION = "modelfleet.dev/simulation/v1alpha1"


def document(world: World, curves: Sequence[Curve], seeds: Sequence[int], notes: Sequence[str]) -> dict[str, Any]:
    """The stable form: figures in the units that their names say, shares from 0 to 1."""
    return {
        "apiVersion": VERSION,
        "world": _world(world, notes),
        "policies": [_policy(world, each, curves, seeds) for each in curves],
    }


def _world(world: World, notes: Sequence[str]) -> dict[str, Any]:
    setting, site = world.setting, world.site
    return {
        "requests": len(world.trace.requests),
        "duration_s": round(world.trace.duration_s, 1),
        "ttft_s": setting.promise.ttft_s,
        "tpot_s": setting.promise.tpot_s,
        "share": setting.promise.share,
        "coldStart_s": setting.cold_start_s,
        "warmStart_s": setting.warm_start_s,
        "supplyReplicas": setting.supply,
        "capacityError": setting.capacity_error,
        "routing": setting.routing.value,
        "acceleratorsPerReplica": site.accelerators_per_replica,
        "kneePerReplica_rps": round(world.knee_rps, 4),
        "kvCacheTokens": site.engine.kv_tokens,
        "mostInFlightPerReplica": site.engine.in_flight,
        "mostQueuedTokensPerReplica": site.engine.queued_tokens,
        "firstReplicas": site.first_replicas,
        "notes": [*world.trace.notes, *notes],
    }


def _policy(world: World, curve: Curve, curves: Sequence[Curve], seeds: Sequence[int]) -> dict[str, Any]:
    usual = [point for point in curve.points if point.parameter == curve.usual]
    return {
        "policy": curve.policy,
        "causal": curve.causal,
        "asShipped": _mean(usual) if usual else None,
        "acceleratorHoursAtPromise": _at(curve, world.setting.promise.share, seeds),
        "acceleratorHoursAtOurShare": _at_ours(curve, curves, seeds),
        "points": [
            {
                "parameter": point.parameter,
                "seed": point.seed,
                "share": round(point.share, 6),
                "acceleratorHours": round(point.accelerator_hours, 4),
                "goodRequestsPerAcceleratorHour": round(point.good_per_accelerator_hour, 1),
                "worst5MinutesShare": round(point.worst_share, 4),
                "scaleActions": point.actions,
                "refused": point.refused,
                "failed": point.failed,
            }
            for point in curve.points
        ],
    }


def _mean(points: Sequence[Point]) -> dict[str, float]:
    count = len(points)
    return {
        "share": round(sum(point.share for point in points) / count, 6),
        "acceleratorHours": round(sum(point.accelerator_hours for point in points) / count, 4),
        "goodRequestsPerAcceleratorHour": round(sum(point.good_per_accelerator_hour for point in points) / count, 1),
        "worst5MinutesShare": round(min(point.worst_share for point in points), 4),
        "scaleActions": round(sum(point.actions for point in points) / count, 1),
    }


def _at(curve: Curve, share: float, seeds: Sequence[int]) -> float | None:
    """The mean over seeds; None where any seed does not reach the share."""
    found = [cost_at(curve, share, seed) for seed in seeds]
    known = [cost for cost in found if cost is not None]
    return round(sum(known) / len(known), 4) if len(known) == len(found) and known else None


def _at_ours(curve: Curve, curves: Sequence[Curve], seeds: Sequence[int]) -> float | None:
    """What the policy costs at the share that ours reaches as shipped, seed by seed."""
    mine = next((each for each in curves if each.policy == OURS), None)
    if mine is None:
        return None
    costs = []
    for point in mine.points:
        if point.parameter == mine.usual and point.seed in seeds:
            cost = point.accelerator_hours if curve is mine else cost_at(curve, point.share, point.seed)
            if cost is None:
                return None
            costs.append(cost)
    return round(sum(costs) / len(costs), 4) if costs else None


def table(world: World, curves: Sequence[Curve], seeds: Sequence[int], notes: Sequence[str]) -> str:
    """For people: one line a policy as shipped, its cost at the promise, and at our share."""
    made = document(world, curves, seeds, notes)
    about = made["world"]
    lines = [
        f"{about['requests']} requests in {about['duration_s'] / 3600:.2f} h; one replica takes"
        f" {about['kneePerReplica_rps']:.3g} requests a second inside ttft {about['ttft_s']:g} s and tpot"
        f" {about['tpot_s'] * 1000:g} ms for {about['share']:.4g} of them; cold start {about['coldStart_s']:g} s",
        *(f"  {note}" for note in about["notes"]),
        "",
        f"{'policy':<22} {'share':>7} {'acc-hours':>10} {'good/acc-h':>11} {'worst 5min':>10} {'actions':>8}"
        f" {'at promise':>11} {'at our share':>13}",
    ]
    for each in made["policies"]:
        shipped = each["asShipped"]
        if shipped is None:
            what = "schedule" if each["policy"] == ORACLE else f"number from {world.site.fewest} to {world.site.most}"
            lines.append(f"{each['policy']:<22} no {what} keeps the share")
            continue
        lines.append(
            f"{each['policy']:<22} {shipped['share']:>7.4f} {shipped['acceleratorHours']:>10.2f}"
            f" {shipped['goodRequestsPerAcceleratorHour']:>11.0f} {shipped['worst5MinutesShare']:>10.3f}"
            f" {shipped['scaleActions']:>8.0f} {_cell(each['acceleratorHoursAtPromise']):>11}"
            f" {_cell(each['acceleratorHoursAtOurShare']):>13}"
        )
    lines += ["", "acc-hours: accelerator-hours. at promise, at our share: accelerator-hours between the points of the"]
    lines += [f"policy's curve at that share; -: no point reaches it. static and {ORACLE} know the trace."]
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
