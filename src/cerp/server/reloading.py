"""A model file that is watched: when it changes, the new one is checked whole and then taken."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from cerp.artifact import read_whole
from cerp.errors import CerpError
from cerp.runtime import Runtime

SECONDS = 2.0
"""Between two looks at the file."""


class WatchedFile:
    """Looks at a file, and hands over what it holds once that is a model."""

    def __init__(
        self,
        path: Path,
        take: Callable[[Runtime, bytes], None],
        tell: Callable[[str], None],
    ) -> None:
        self.path, self._take, self._tell = path, take, tell
        self._looked_at = self._looks()

    def _looks(self) -> tuple[int, int, int] | None:
        """What changes when the file does; None while it is not there."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - a link is followed, and may change
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def look(self, *, always: bool = False) -> None:
        """Take the model in the file if it has changed, or in any case; the old one answers on."""
        now = self._looks()
        if not always and (now is None or now == self._looked_at):
            return
        try:
            file, shipped = read_whole(self.path)
            # As a request would find it: vectors are composed and propagated before it is taken.
            runtime = Runtime(shipped, file_bytes=len(file))
            if len(runtime.users):
                runtime.recommend(runtime.users.decode([0])[0], 1, exclude_seen=False)
        except (CerpError, OSError, MemoryError) as error:
            self._tell(f"not reloaded, the model of before answers on: {error}")
        else:
            self._take(runtime, file)
            self._tell(f"reloaded {self.path} ({len(file):,} bytes)")
        self._looked_at = now


class Watch(threading.Thread):
    """Looks at files every few seconds, and at once when `wake` is called, as by SIGHUP."""

    def __init__(self, files: list[WatchedFile], seconds: float = SECONDS) -> None:
        super().__init__(name="cerp-watch", daemon=True)
        self._files, self._seconds = files, seconds
        self._woken, self._ended = threading.Event(), False

    def wake(self) -> None:
        """Reload all, changed or not."""
        self._woken.set()

    def end(self) -> None:
        """Stop looking."""
        self._ended = True
        self._woken.set()

    def run(self) -> None:
        """Until the end."""
        while not self._ended:
            is_woken = self._woken.wait(self._seconds)
            self._woken.clear()
            for file in self._files if not self._ended else ():
                file.look(always=is_woken)
