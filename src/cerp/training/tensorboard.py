"""The curves of a run in TensorBoard; needs the extra ``tensorboard``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cerp.callbacks import Callback
from cerp.errors import MissingExtra


class TensorBoard(Callback):
    """Writes what it is told as events that ``tensorboard --logdir FOLDER`` shows.

    Curves are called ``stage/figure`` over epochs, figures of the finished models
    ``budget/part/metric``.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtra("Writing for TensorBoard", "tensorboard", "tensorboard") from None
        self._writer: Any = SummaryWriter(str(folder))

    def on_epoch(self, stage: str, epoch: float, figures: Mapping[str, float]) -> None:
        """A point of every curve; a last epoch that is a fraction counts as whole."""
        for name, value in figures.items():
            self._writer.add_scalar(f"{stage}/{name}", value, -int(-epoch // 1))

    def on_end(self, result: Mapping[str, Any]) -> None:
        """The figures of the models, and all is written."""
        for model in result["models"]:
            for part in ("valid", "test"):
                for name, value in (model.get(part) or {}).items():
                    if isinstance(value, int | float):
                        self._writer.add_scalar(f"{model['budget']}/{part}/{name}", value)
        self._writer.close()
