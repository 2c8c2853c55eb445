"""The command ``cerp``: until everything is imported, Ctrl-C ends it without a word."""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line, which takes a moment, and run it."""
    # An interrupted import would show a traceback, and there is nothing to be saved yet.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cerp.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
