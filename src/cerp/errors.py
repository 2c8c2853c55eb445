"""Every error that cerp raises on purpose.

    CerpError
    ├── InputError            the caller's mistake; exit code 2
    │   ├── DataError         a file, table or folder whose content cannot be used
    │   │   └── ColumnsError  a table of which nobody said which columns are what
    │   ├── ConfigError       an option or a combination of options
    │   │   ├── BudgetError   a budget that cannot be met with this data and method
    │   │   └── BusyError     a folder in which another process is at work
    │   ├── FileFormatError   a .cerp file that cannot be read
    │   │   ├── TruncatedFileError    its end is missing
    │   │   ├── ChecksumError         its bytes are not those that were written
    │   │   ├── FormatVersionError    it was written by a later cerp
    │   │   └── MalformedFileError    it is not a .cerp file, or contradicts itself
    │   └── MissingExtra      a feature whose optional packages are not installed
    └── FailureError          nothing the caller did; exit code 1
        ├── DownloadError     a dataset could not be fetched or did not verify
        ├── ScoreError        a model produced scores that cannot be ranked
        ├── TrainingError     training diverged, or pruning stalled and was told to stop
        │   └── StoppedError  training was told to stop before its end; it can be resumed
        ├── CheckpointError   a checkpoint could not be read
        └── OutputError       a file could not be written

A message says which input, what is wrong with it, and what to do next.
"""

from __future__ import annotations

from typing import ClassVar


class CerpError(Exception):
    """Base of all errors raised by cerp; ``exit_code`` is what the command line returns."""

    exit_code: ClassVar[int] = 1


class InputError(CerpError):
    """What the caller gave cannot be used."""

    exit_code = 2


class DataError(InputError):
    """A file, table or folder holds something that is not usable interactions."""


class ColumnsError(DataError):
    """A table whose columns of users and items cannot be told from their names."""


class ConfigError(InputError):
    """An option, or a combination of options, that makes no sense."""


class BudgetError(ConfigError):
    """A budget that cannot be met: trying again with the same settings changes nothing."""


class BusyError(ConfigError):
    """A folder in which another process is at work."""


class FileFormatError(InputError):
    """A .cerp file that cannot be read."""


class TruncatedFileError(FileFormatError):
    """The end of a .cerp file is missing."""


class ChecksumError(FileFormatError):
    """The bytes of a .cerp file are not those that were written."""


class FormatVersionError(FileFormatError):
    """A .cerp file in a format that this version of cerp does not know."""


class MalformedFileError(FileFormatError):
    """Not a .cerp file, or one whose parts contradict each other."""


class MissingExtra(InputError, ImportError):
    """A feature needs an optional package that is not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package {package!r}, which is not installed. "
            f"Install it with: pip install 'cerp[{extra}]'"
        )


class FailureError(CerpError):
    """Something went wrong that the caller did not cause."""


class DownloadError(FailureError):
    """A dataset could not be fetched, or what came is not what was expected."""


class ScoreError(FailureError):
    """A model returned scores that cannot be ranked (NaN, or the wrong shape)."""


class TrainingError(FailureError):
    """Training cannot go on: a loss that is not finite, or a stall that was told to stop."""


class StoppedError(TrainingError):
    """Training was told to stop before its end (`cerp.config.RunOptions.watch`)."""


class CheckpointError(FailureError):
    """A checkpoint could not be read."""


class OutputError(FailureError):
    """A file could not be written; what was there before is left as it was."""
