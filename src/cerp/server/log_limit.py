"""A log that a crowd of bad requests cannot fill the disk with."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

RECORDS = 60
SECONDS = 60.0
NOISY = ("uvicorn.error", "asyncio")
"""Loggers that say something for each request or connection that goes wrong."""


class LimitLog(logging.Filter):
    """At most so many records in so many seconds; the next one says how many were left out."""

    def __init__(
        self,
        records: int = RECORDS,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.records, self.seconds, self.clock = records, seconds, clock
        self._since, self._count, self._left_out = clock(), 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        if self.clock() - self._since >= self.seconds:
            self._since, self._count = self.clock(), 0
        if self._count >= self.records:
            self._left_out += 1
            return False
        self._count += 1
        if self._left_out:
            record.msg = f"({self._left_out} messages were left out) {record.getMessage()}"
            record.args = ()
            self._left_out = 0
        return True


def limit_logs() -> None:
    """Bound what the server's loggers write, from here on."""
    for name in NOISY:
        logger = logging.getLogger(name)
        if not any(isinstance(one, LimitLog) for one in logger.filters):
            logger.addFilter(LimitLog())
