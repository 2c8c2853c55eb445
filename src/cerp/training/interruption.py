"""Ctrl-C and signals that end a process wait until a training step is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Ctrl-C, the end of a job or of the machine, and a terminal that is closed."""


@contextmanager
def interruption_noted() -> Iterator[Callable[[], bool]]:
    """What asks the process to stop waits for the step to end, so that what is saved is whole.

    At the end of the block it does what it would have done before: Ctrl-C is a
    `KeyboardInterrupt`, the others end the process. A second one does so at once. What is
    ignored (``nohup``) stays so. Outside the main thread signals cannot be caught.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    noted: list[int] = []
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    def note(number: int, _: object) -> None:
        noted.append(number)
        if len(noted) > 1:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    heeded = [number for number in STOP_SIGNALS if before[number] not in (signal.SIG_IGN, None)]
    for number in heeded:
        signal.signal(number, note)
    try:
        yield lambda: bool(noted)
    finally:
        for number in heeded:
            signal.signal(number, before[number])
    if noted:
        signal.raise_signal(noted[0])
        raise KeyboardInterrupt  # where the handler of another has only made a note
