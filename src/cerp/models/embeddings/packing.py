"""Masks as bits, and integers in the fewest bytes, for states that are saved."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def packed_bits(mask: Tensor) -> Tensor:
    """A mask as bytes, eight entries in each, the first in the highest bit."""
    packed = np.packbits(mask.detach().cpu().numpy())
    return torch.from_numpy(packed).to(mask.device)


def unpacked_bits(packed: Tensor, shape: torch.Size) -> Tensor | None:
    """The mask of a shape that `packed_bits` was given; None where it had another size."""
    count = shape.numel()
    if packed.shape != ((count + 7) // 8,):
        return None
    bits = np.unpackbits(packed.cpu().numpy(), count=count)
    return torch.from_numpy(bits.astype(bool)).view(shape).to(packed.device)


def narrow(codes: Tensor) -> Tensor:
    """Whole numbers from 0 on, in the smallest of 8, 16 or 32 bits that holds them."""
    largest = int(codes.max()) if codes.numel() else 0
    for dtype in (torch.uint8, torch.int16):
        if largest <= torch.iinfo(dtype).max:
            return codes.to(dtype)
    return codes.to(torch.int32)
