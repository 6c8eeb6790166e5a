"""A paged KV cache with prefix caching as vLLM keeps it: blocks that nobody holds stay until others need the room, the
least recently used first. Pure."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from stand_in.options import BLOCK_TOKENS


def block_hashes(tokens: Sequence[Hashable]) -> list[int]:
    """One hash for each full block, over it and all before it."""
    hashes, before = [], 0
    for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        before = hash((before, *tokens[start : start + BLOCK_TOKENS]))
        hashes.append(before)
    return hashes


def blocks_of(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)


class KvCache:
    """Counts blocks. A sequence holds named blocks (its full prompt blocks) and nameless ones (the rest)."""

    def __init__(self, blocks: int, *, caching: bool = True) -> None:
        self.blocks = blocks
        self._caching = caching
        self._held: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._nameless = 0

    @property
    def free(self) -> int:
        """Blocks that nobody holds; some may be cached."""
        return self.blocks - len(self._held) - self._nameless

    @property
    def usage(self) -> float:
        return 1 - self.free / self.blocks

    def known(self, hashes: Sequence[int]) -> int:
        """How many of the leading blocks are cached."""
        count = 0
        for one in hashes if self._caching else ():
            if one not in self._held and one not in self._idle:
                break
            count += 1
        return count

    def take(self, hashes: Sequence[int], nameless: int) -> bool:
        """Holds these blocks; False, and nothing is held, if there is no room."""
        fresh = len({one for one in hashes if one not in self._held})
        if fresh + nameless > self.free:
            return False
        for one in hashes:
            self._held[one] = self._held.get(one, 0) + 1
            self._idle.pop(one, None)
        self._nameless += nameless
        self._make_room()
        return True

    def give_back(self, hashes: Sequence[int], nameless: int, whole: Sequence[int]) -> None:
        """Lets go. `whole`: the blocks of the sequence as it is now, which stay cached, the last to go first."""
        self._nameless -= nameless
        for one in hashes:
            self._held[one] -= 1
            if not self._held[one]:
                del self._held[one]
        for one in reversed(whole if self._caching else ()):
            if one not in self._held:
                self._idle[one] = None
                self._idle.move_to_end(one)
        self._make_room()

    def _make_room(self) -> None:
        while len(self._idle) > self.free:
            self._idle.popitem(last=False)
