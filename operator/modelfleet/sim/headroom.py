"""Where bursts outrun the cold start: the replicas that would have had to stand ready for the promise to be kept."""

from dataclasses import replace

from modelfleet.sim.contest import OURS, Point, rules, scored
from modelfleet.sim.fleet import Fleet
from modelfleet.sim.world import World


def headroom(world: World, seed: int) -> int | None:
    """The least minReplicas with which our policy keeps the share on this seed; None where no number does that there
    are nodes for.

    Found by halving: more replicas at all times are taken never to keep less.
    """
    low, high = world.site.fewest - 1, world.site.most
    if _with(world, high, seed).share < world.setting.promise.share:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _with(world, middle, seed).share >= world.setting.promise.share:
            high = middle
        else:
            low = middle
    return high


def _with(world: World, replicas: int, seed: int) -> Point:
    first = max(world.site.first_replicas, replicas)
    site = replace(world.site, min_replicas=replicas, first_replicas=first)
    raised = replace(world, site=site, setting=replace(world.setting, min_replicas=replicas))
    rule = next(each for each in rules(raised) if each.name == OURS)
    run = Fleet(site, seed).run(world.trace.requests, rule.make[rule.usual](seed), world.trace.duration_s)
    return scored(raised, run, rule.usual, seed)
