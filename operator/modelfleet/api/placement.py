"""Where replicas may and should stand. Pure."""

from enum import StrEnum


class Spread(StrEnum):
    """Over which failure domains the replicas of a deployment are spread."""

    ZONE = "Zone"
    NODE = "Node"
    NONE = "None"
