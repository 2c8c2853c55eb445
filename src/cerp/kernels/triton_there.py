"""Whether kernels can be compiled for a device, and whether a run has begun to use them."""

from __future__ import annotations

import torch

MANY = 8192
"""Vectors of a batch from which on kernels are worth compiling for it."""
_WORKING: dict[torch.device, bool] = {}
_PRODUCTS: dict[torch.device, bool] = {}


def work_on(device: torch.device) -> bool:
    """Whether kernels can be compiled for a device, and give what they should.

    Compiling takes a C compiler, which a machine may lack; what it lacks is not told apart.
    """
    if device.type != "cuda":
        return False
    if device not in _WORKING:
        try:
            from cerp.kernels.soft_threshold import errors

            _WORKING[device] = errors(device) < 1e-5
        except Exception:
            _WORKING[device] = False
    return _WORKING[device]


def products_work_on(device: torch.device) -> bool:
    """The same of products of matrices, which take some seconds to compile on a new machine."""
    if not work_on(device):
        return False
    if device not in _PRODUCTS:
        try:
            from cerp.kernels.row_products import errors

            _PRODUCTS[device] = errors(device) < 1e-3
        except Exception:
            _PRODUCTS[device] = False
    return _PRODUCTS[device]


def in_use(device: torch.device) -> bool:
    """Whether kernels were compiled here already, so that small batches have them, too."""
    return _WORKING.get(device, False)


def pay_off(device: torch.device, count: int) -> bool:
    """Whether a batch of so many vectors is to have kernels: a large one, or where they are in use.

    The first time on a machine takes Triton a second or two, which small batches do not win back.
    Nothing is compiled while a GPU's work is recorded. Kernels add in any order, so that they are
    not for those who asked torch for results that are the same every time.
    """
    if torch.are_deterministic_algorithms_enabled():
        return False
    if device in _WORKING:
        return _WORKING[device]
    if device.type != "cuda" or count < MANY or torch.cuda.is_current_stream_capturing():
        return False
    return work_on(device)
