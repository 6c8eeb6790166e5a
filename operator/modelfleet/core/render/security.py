"""The restricted pod security standard, as every pod of ours meets it. Pure."""

USER_ID = 65532  # the non-root user of distroless images, which is the worker image's too

POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER_ID,
    "runAsGroup": USER_ID,
    "fsGroup": USER_ID,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "privileged": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}
"""Together the restricted pod security standard, on a root that cannot be written."""

PROCESSES = {"shareProcessNamespace": True}
"""For the kernel a program is no process 1, which loses each signal that it has no handler for yet: a pod that is
deleted while a container starts would run on for its whole grace, on a node that others wait for (ADR 21)."""
