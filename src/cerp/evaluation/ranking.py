"""The k best of each row of scores, exactly, with one rule for ties.

Higher scores come first and equal scores in ascending column order, also
where the tie straddles the cut, so that a ranking is a function of the scores
alone: not of the library, the device or the chunk size.

Cut the columns into any groups: the k-th best of their maxima is no better than the k-th
best column. So only the columns that are as good as that maximum are ranked, a few more
than k, unless many scores are equal.

Where many are, and on accelerators, blocks of neighbours are ranked by their maximum, ties
by position: the k best columns lie in the k best blocks. (A column of any other block has
k columns before it: the first maximum of each of the k best blocks.) What remains to be
ranked is k blocks a row instead of the catalogue, however many scores are equal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cerp.cores import allowed_threads, shared_out
from cerp.errors import ConfigError, ScoreError

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeIs

    Scores: TypeAlias = npt.NDArray[np.floating[Any]] | torch.Tensor
    """A matrix of floating-point scores: a NumPy array, or a tensor on any device."""

BLOCK = 64
"""Columns a block; of 32, 64 and 128 the fastest for k = 50 of 41,000 columns."""
ROWS_SCORES = 1 << 19
"""Scores whose maxima are looked at together, so that they stay in cache; at least one row."""
MOST_EQUAL = 8
"""With more columns than so many for each of the k that could be in a list, blocks are ranked."""
MANY_SCORES = 1 << 22
"""From here on threads are worth their while."""


def top_k(scores: Scores, k: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.floating[Any]]]:
    """Columns and scores of the k best of each row, best first, ties by ascending column.

    Both results have shape (rows, min(k, columns)) and are NumPy arrays, so of
    a tensor on an accelerator only the lists travel. A score of -inf means
    "not to be recommended": its column comes back as -1. NaN is an error.
    """
    if k < 1:
        raise ConfigError(f"top_k needs k of at least 1, got {k}")
    if scores.ndim != 2:
        raise ScoreError(f"scores must have the shape (users, items), got {tuple(scores.shape)}")
    if not _is_tensor(scores):
        columns, best = _on_all_cores(_floating(scores), k)
    elif scores.device.type == "cpu":
        # Faster than torch.topk on two threads, which keeps any of several equal scores.
        columns, best = _on_all_cores(_floating_tensor(scores).numpy(), k)
    else:
        columns, best = _torch_top_k(_floating_tensor(scores), k)
    return np.where(best == -np.inf, -1, columns).astype(np.int32), best


def exclude(
    scores: Scores,
    rows: npt.NDArray[np.integer[Any]],
    columns: npt.NDArray[np.integer[Any]],
    everywhere: npt.NDArray[np.integer[Any]] | None = None,
) -> Scores:
    """The scores with -inf at the given places: not to be recommended.

    ``everywhere`` are columns that no row may have. Written into the given scores, unless
    those cannot be written to.
    """
    places = rows.astype(np.int64) * scores.shape[1] + columns
    if not _is_tensor(scores):
        writable = np.require(_floating(scores), requirements=["C", "W"])
        writable.reshape(-1)[places] = -np.inf
        if everywhere is not None and everywhere.size:
            writable[:, everywhere] = -np.inf
        return writable
    import torch

    with torch.inference_mode():
        flat = _floating_tensor(scores).contiguous()
        flat.view(-1).index_fill_(0, torch.from_numpy(places).to(flat.device), -torch.inf)
        if everywhere is not None and everywhere.size:
            hidden = torch.from_numpy(everywhere.astype(np.int64)).to(flat.device)
            flat.index_fill_(1, hidden, -torch.inf)
        return flat


def _is_tensor(scores: Scores) -> TypeIs[torch.Tensor]:
    """Whether scores are a torch tensor; does not import torch to find out."""
    torch_module = sys.modules.get("torch")
    return torch_module is not None and isinstance(scores, torch_module.Tensor)


def _floating(scores: npt.NDArray[Any]) -> npt.NDArray[np.floating[Any]]:
    if scores.dtype.kind != "f":
        raise ScoreError(f"scores must be floating-point numbers, got {scores.dtype}")
    return scores


def _floating_tensor(scores: torch.Tensor) -> torch.Tensor:
    """Without gradients; half precision as float32, which holds it exactly and NumPy knows."""
    if not scores.is_floating_point():
        raise ScoreError(f"scores must be floating-point numbers, got {scores.dtype}")
    return scores.detach().float() if scores.element_size() < 4 else scores.detach()


def _on_all_cores(
    scores: npt.NDArray[np.floating[Any]], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.floating[Any]]]:
    """`_numpy_top_k`, where there are many scores with some of the rows on each core."""
    threads = min(allowed_threads(), len(scores))
    if scores.size < MANY_SCORES or threads == 1:
        return _numpy_top_k(scores, k)
    found = shared_out(lambda rows: _numpy_top_k(rows, k), np.array_split(scores, threads))
    columns, best = zip(*found, strict=True)
    return np.concatenate(columns), np.concatenate(best)


def _numpy_top_k(
    scores: npt.NDArray[np.floating[Any]], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.floating[Any]]]:
    scores = np.ascontiguousarray(scores)
    rows, num_columns = scores.shape
    if num_columns // BLOCK <= 4 * k:
        return _in_order(scores, _best_columns(scores, k))
    columns = np.empty((rows, k), dtype=np.int64)
    best = np.empty((rows, k), dtype=scores.dtype)
    step = max(1, ROWS_SCORES // num_columns)
    for begin in range(0, rows, step):
        part = slice(begin, begin + step)
        found = _best_above(scores[part], k)
        if found is None:
            found = _in_order(scores[part], _best_by_blocks(scores[part], k))
        columns[part], best[part] = found
    return columns, best


def _in_order(
    scores: npt.NDArray[np.floating[Any]], columns: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.floating[Any]]]:
    """Columns of each row, given in ascending order, and their scores, best first."""
    best = np.take_along_axis(scores, columns, axis=1)
    order = np.argsort(-best, axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(best, order, axis=1)


def _best_above(
    scores: npt.NDArray[np.floating[Any]], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.floating[Any]]] | None:
    """The k best by the maxima of groups; None where many columns are as good as those."""
    rows, num_columns = scores.shape
    # Column c is in group c mod groups: so the maxima are those of whole rows of memory.
    groups = num_columns // BLOCK
    maxima = scores[:, : BLOCK * groups].reshape(rows, BLOCK, groups).max(axis=1)
    for begin in range(BLOCK * groups, num_columns, groups):
        rest = scores[:, begin : begin + groups]
        np.maximum(maxima[:, : rest.shape[1]], rest, out=maxima[:, : rest.shape[1]])
    _refuse_nan(bool(np.isnan(maxima).any()))
    cut = np.partition(maxima, groups - k, axis=1)[:, groups - k, None]
    places = np.flatnonzero(scores >= cut)
    if len(places) > MOST_EQUAL * k * rows:
        return None
    row, column = np.divmod(places, num_columns)
    values = scores.reshape(-1)[places]
    order = np.lexsort((-values, row))  # stable: equal scores stay in ascending column order
    chosen = order[np.searchsorted(row, np.arange(rows))[:, None] + np.arange(k)]
    return column[chosen], values[chosen]


def _best_by_blocks(scores: npt.NDArray[np.floating[Any]], k: int) -> npt.NDArray[np.int64]:
    """What `_best_columns` gives, after a look at the maximum of each block."""
    rows, num_columns = scores.shape
    blocks = num_columns // BLOCK
    starts = np.arange(rows)[:, None] * num_columns + np.arange(blocks) * BLOCK
    # The last block of a row ends where the next row starts, so it covers the remainder too.
    maxima = np.maximum.reduceat(scores.reshape(-1), starts.reshape(-1)).reshape(rows, blocks)
    chosen = _best_columns(maxima, k)
    inside = scores[:, : blocks * BLOCK].reshape(rows, blocks, BLOCK)
    candidates = np.concatenate(
        [
            inside[np.arange(rows)[:, None], chosen].reshape(rows, k * BLOCK),
            scores[:, blocks * BLOCK :],
        ],
        axis=1,
    )
    block, offset = np.divmod(_best_columns(candidates, k), BLOCK)
    # The remainder stands behind the chosen blocks, as one more that is always chosen.
    chosen = np.pad(chosen, ((0, 0), (0, 1)), constant_values=blocks)
    return np.take_along_axis(chosen, block, axis=1) * BLOCK + offset


def _best_columns(values: npt.NDArray[np.floating[Any]], k: int) -> npt.NDArray[np.int64]:
    """The k best columns of each row, ascending; of those equal to the k-th best, the first."""
    rows, num_columns = values.shape
    k = min(k, num_columns)
    # Partition puts NaN last, among the best.
    best = np.partition(values, num_columns - k, axis=1)[:, num_columns - k :]
    _refuse_nan(bool(np.isnan(best).any()))
    cut = best[:, :1]
    keep = values >= cut
    surplus = np.count_nonzero(keep, axis=1, keepdims=True) - k
    tied = np.flatnonzero(surplus)
    if tied.size:
        equal = values[tied] == cut[tied]
        place = np.cumsum(equal, axis=1, dtype=np.int32)
        keep[tied] &= ~equal | (place <= place[:, -1:] - surplus[tied])
    return np.nonzero(keep)[1].reshape(rows, k)


def _torch_top_k(
    scores: torch.Tensor, k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.floating[Any]]]:
    import torch

    rows, num_columns = scores.shape
    k, blocks = min(k, num_columns), num_columns // BLOCK
    _refuse_nan(bool(scores.isnan().any()))
    columns = torch.arange(num_columns, device=scores.device).expand(rows, -1)
    if blocks > k:
        whole = blocks * BLOCK
        maxima = scores[:, :whole].reshape(rows, blocks, BLOCK).amax(2)
        best_blocks = maxima.sort(dim=1, descending=True, stable=True).indices[:, :k].sort().values
        inside = best_blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=scores.device)
        columns = torch.cat([inside.flatten(1), columns[:, whole:]], dim=1)
    best, order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
    return columns.gather(1, order[:, :k]).cpu().numpy(), best[:, :k].cpu().numpy()


def _refuse_nan(found: bool) -> None:
    if found:
        raise ScoreError(
            "the scores hold NaN, which has no place in a ranking; "
            "the model has diverged: lower the learning rate, or look at its weights"
        )
