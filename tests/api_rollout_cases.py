"""spec.rollout: what may be written there, and what is said about the rest."""

from api_objects import Bad, Good

ROLLOUT_GOOD = (
    Good(
        "every field of a rollout",
        {
            "spec.rollout": {
                "maxSurge": 2,
                "maxUnavailable": 1,
                "progressDeadline": "1h30m",
                "onFailure": "Hold",
                "paused": True,
            }
        },
    ),
    Good("a rollout that never makes a replica too many", {"spec.rollout": {"maxSurge": 0}}),
    Good("a rollout that never takes a replica away first", {"spec.rollout": {"maxUnavailable": 0}}),
)

ROLLOUT_BAD = (
    Bad(
        "a rollout in which nothing may move",
        {"spec.rollout": {"maxSurge": 0, "maxUnavailable": 0}},
        "spec.rollout.maxUnavailable",
        "maxSurge 0 and maxUnavailable 0 leave no replica that may move: allow one more or one less",
    ),
    Bad(
        "fewer than no replicas above the wanted number",
        {"spec.rollout": {"maxSurge": -1}},
        "spec.rollout.maxSurge",
        "must be at least 0",
        server="should be greater than or equal to 0",
    ),
    Bad(
        "a share of replicas that may be missing",
        {"spec.rollout": {"maxUnavailable": "25%"}},
        "spec.rollout.maxUnavailable",
        'must be a whole number without quotes, not "25%"',
        server="must be of type integer",
    ),
    Bad(
        "a deadline that is over at once",
        {"spec.rollout": {"progressDeadline": "0s"}},
        "spec.rollout.progressDeadline",
        "the duration must be above zero",
    ),
    Bad(
        "another end of a failed rollout",
        {"spec.rollout": {"onFailure": "Abort"}},
        "spec.rollout.onFailure",
        "must be one of 'Rollback' or 'Hold'",
        server="Unsupported value",
    ),
    Bad(
        "a pause in quotes",
        {"spec.rollout": {"paused": "yes"}},
        "spec.rollout.paused",
        'must be true or false, without quotes, not "yes"',
        server="must be of type boolean",
    ),
)
