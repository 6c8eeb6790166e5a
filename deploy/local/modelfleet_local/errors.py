"""The one exception that a user of the local cluster sees. Pure."""


class LocalClusterError(Exception):
    """What failed, why, and what to do or where to look: one or two sentences for a person, never a traceback."""
