"""A thread for what takes longer than handling a request.

`run` hands one bounded step over; what has many steps hands them over one by one, and other
requests get their turn in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


class Work:
    """One thread beside the event loop, one step after the other.

    One, because the interpreter lets only one thread calculate in Python at a time: with more,
    the event loop would wait for its turn behind all of them. NumPy's products use all cores.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cerp")

    async def run(self, step: Callable[[], Answer]) -> Answer:
        """The answer of one step."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, step)
