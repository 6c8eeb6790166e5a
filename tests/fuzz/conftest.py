"""The operator as a process and a user's hands, as the tests of the API server have them."""

from apiserver.conftest import fleet, own_operator

__all__ = ["fleet", "own_operator"]
