"""Threads for what takes longer than handling a request, and how much there is to do.

`run` hands one bounded step over; what has many steps hands them over one by one, and other
requests get their turn in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

FEW = 4
"""Requests at a time, up to which the event loop makes quick lists itself."""
Answer = TypeVar("Answer")


class Work:
    """Two threads beside the event loop: one for steps of batches, one for everything else.

    No more, because the interpreter lets only one thread calculate in Python at a time, and the
    event loop waits for its turn behind all of them.
    """

    def __init__(self) -> None:
        self._short = ThreadPoolExecutor(1, thread_name_prefix="cerp")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="cerp-batches")
        self._turn = asyncio.Lock()
        self.requests = self.batches = 0
        """That are being answered."""

    @property
    def is_crowded(self) -> bool:
        """Whether so many requests wait that the event loop should do nothing else than HTTP."""
        return self.requests > FEW

    async def run(self, step: Callable[[], Answer]) -> Answer:
        """The answer of one step."""
        return await asyncio.get_running_loop().run_in_executor(self._short, step)

    async def run_batch(self, step: Callable[[], Answer]) -> Answer:
        """The answer of one step of a batch.

        The next step is handed over when the event loop has seen the end of this one: it has a
        turn of its own in between, in which nobody takes the interpreter's lock from it.
        """
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(self._long, step)
