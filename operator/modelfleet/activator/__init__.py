"""Holds requests for models at zero, tells that they wait, and hands them to the replicas that come.

A process beside the operator, which goes on without it. docs/activator.md says what it promises.
"""
