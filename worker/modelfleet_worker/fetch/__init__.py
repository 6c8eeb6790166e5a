"""Weights from a model hub, an object store or a registry into a folder: once, resumable, checked, atomic.

Runs in an init container, so an engine's restart never waits for a server. The secret of the user is only there.
"""
