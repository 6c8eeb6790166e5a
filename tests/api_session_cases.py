"""Holds of sessions: good and bad ones, and what is said about them."""

from api_objects import Bad, Good

HOLD = "spec.sessions.hold"
GOLD = {"when": {"header": "x-tier", "values": ["gold"]}, "maxGap": "10s", "maxShareOfCache": "10%"}

SESSION_GOOD = (
    Good("no hold", {"spec.sessions": {}}),
    Good("a hold", {HOLD: GOLD}),
    Good(
        "a hold at every bound",
        {HOLD: {"when": {"header": "X-Tier", "values": ["gold", "a b"]}, "maxGap": "5m", "maxShareOfCache": 50}},
    ),
    Good("a hold with prefix caching written out", {HOLD: GOLD, "spec.engine.args": {"enable-prefix-caching": ""}}),
)

SESSION_BAD = (
    Bad(
        "a hold of everybody",
        {HOLD: {"maxGap": "10s", "maxShareOfCache": "10%"}},
        f"{HOLD}.when",
        "is required: Which requests belong to sessions that are held",
        server=f"{HOLD}.when: Required value",
    ),
    Bad(
        "a hold without values",
        {HOLD: GOLD | {"when": {"header": "x-tier", "values": []}}},
        f"{HOLD}.when.values",
        "must have at least 1 of them",
        server="should have at least 1 items",
    ),
    Bad(
        "a header with a blank",
        {HOLD: GOLD | {"when": {"header": "x tier", "values": ["gold"]}}},
        f"{HOLD}.when.header",
        "a header's name is letters, digits and '-', such as x-tier",
    ),
    Bad(
        "a header of ours",
        {HOLD: GOLD | {"when": {"header": "X-Modelfleet-Objective", "values": ["gold"]}}},
        f"{HOLD}.when.header",
        "headers that begin with x-modelfleet- are ours and never reach this: choose one of your own",
    ),
    Bad(
        "a value on two lines",
        {HOLD: GOLD | {"when": {"header": "x-tier", "values": ["go\nld"]}}},
        f"{HOLD}.when.values[0]",
        "a header's value is printable ASCII without blanks at either end, such as gold",
    ),
    Bad(
        "a hold of an hour",
        {HOLD: GOLD | {"maxGap": "1h"}},
        f"{HOLD}.maxGap",
        "a session is held for at most 5m: a longer hold keeps the cache from those who come back sooner",
    ),
    Bad(
        "a hold of most of the cache",
        {HOLD: GOLD | {"maxShareOfCache": "50.1%"}},
        f"{HOLD}.maxShareOfCache",
        "at most 50% of the cache can be for held sessions: the rest is for everybody",
    ),
    Bad(
        "a hold of most of the cache as a whole number",
        {HOLD: GOLD | {"maxShareOfCache": 51}},
        f"{HOLD}.maxShareOfCache",
        "at most 50% of the cache can be for held sessions: the rest is for everybody",
    ),
    Bad(
        "a hold without the cache",
        {HOLD: GOLD, "spec.engine.args": {"no-enable-prefix-caching": ""}},
        HOLD,
        "what is held is the cache of prefixes: take the flag no-enable-prefix-caching out of engine.args",
    ),
    Bad(
        "affinity before there is a router",
        {"spec.sessions": {"affinityHeader": "x-session-id"}},
        "spec.sessions.affinityHeader",
        "unknown field; there is hold",
        server='unknown field "spec.sessions.affinityHeader"',
    ),
)
