"""Whether kernels can be compiled for a device, and whether a run has begun to use them."""

from __future__ import annotations

import torch

_WORKING: dict[torch.device, bool] = {}


def work_on(device: torch.device) -> bool:
    """Whether kernels can be compiled for a device, and give what they should.

    Compiling takes a C compiler, which a machine may lack; what it lacks is not told apart.
    """
    if device.type != "cuda":
        return False
    if device not in _WORKING:
        try:
            from cerp.kernels.row_products import errors

            _WORKING[device] = errors(device) < 1e-3
        except Exception:
            _WORKING[device] = False
    return _WORKING[device]


def in_use(device: torch.device) -> bool:
    """Whether a large model has had kernels compiled here, so that others are worth it, too.

    The first time on a machine takes Triton some seconds, which small models do not win back.
    """
    return _WORKING.get(device, False)
