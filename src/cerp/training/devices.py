"""Where training happens."""

from __future__ import annotations

import torch

from cerp.config import check_device
from cerp.errors import ConfigError


def chosen_device(name: str) -> str:
    """The device that a name stands for: ``auto`` is a GPU where there is one.

    Parameters
    ----------
    name
        ``auto``, ``cpu``, ``cuda``, or one of several GPUs such as ``cuda:1``.

    Returns
    -------
    str
        The name of a device that is here; anything else is a `ConfigError`.

    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    check_device(name)
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError("there is no CUDA device here; give device=cpu")
    number = int(name.partition(":")[2] or 0)
    if name.startswith("cuda") and number >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise ConfigError(f"device={name}: the CUDA devices here are cuda:0 to cuda:{last}")
    return name
