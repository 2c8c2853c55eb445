"""What a server may tell, and to whom."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cerp.errors import ConfigError

_ORIGIN = re.compile(r"https?://[^/\s*]+", re.ASCII)


@dataclass(frozen=True)
class ServeOptions:
    """By default everything, to pages of this server alone."""

    origins: tuple[str, ...] = ()
    """Of pages elsewhere that may ask, such as ``https://shop.example`` (CORS); ``*``: any."""
    history: bool = True
    """Whether to tell what users have in training."""
    download: bool = True
    """Whether to hand out the file, which the page needs to compute in the browser."""
    docs: bool = False
    """Whether /docs describes the interface."""

    def __post_init__(self) -> None:
        for origin in self.origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"{origin!r} is no origin; write one such as https://shop.example, without a "
                    "path, or * for any"
                )
