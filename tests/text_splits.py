"""Split folders of text, as other projects and earlier versions of cerp write them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from cerp.data.splits import PARTS, Splits


def save_as_text(splits: Splits, folder: Path) -> None:
    """What `Splits.save` wrote before parts became arrays: ``0 5 7`` is user 0 with two items."""
    splits.save(folder)
    for name in PARTS:
        pairs = np.load(folder / f"{name}.npy")
        lines = [
            f"{user} {' '.join(map(str, pairs[pairs[:, 0] == user, 1]))}"
            for user in np.unique(pairs[:, 0])
        ]
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{name}.npy").unlink()
    assert "sha256" in json.loads((folder / "meta.json").read_text())
