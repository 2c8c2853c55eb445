"""The basis in which vectors are cut into groups; needs torch for its k-means.

- Principal components: the eigenvectors of the weighted covariance, largest first.
- A basis for groups (optimised product quantisation: Ge et al., CVPR 2013): components are dealt
  out so that the groups' variances have equal products; then, in turns, each group's points go to
  the nearest of some rows, and the basis turns to where these rows rebuild best (Procrustes).
"""

from __future__ import annotations

import numpy as np
import torch

from cerp.assignment.nearest_rows import nearest_rows
from cerp.data.ids import Float32Array

TURNS = 16
ROWS = 256
POINTS = 1 << 14
"""Rows and points that a basis is found with: more of them hardly move it."""


def principal_components(points: Float32Array, weights: Float32Array) -> Float32Array:
    """An orthonormal basis, (d, d), of centred points; columns by falling variance."""
    covariance = (points * weights[:, None]).T.astype(np.float64) @ points
    _, vectors = np.linalg.eigh(covariance)
    return vectors[:, ::-1].astype(np.float32, order="C")


def group_widths(dim: int, groups: int) -> list[int]:
    """Columns of each group, as equal as possible."""
    return [dim // groups + (place < dim % groups) for place in range(groups)]


def grouped_basis(points: Float32Array, groups: int, seed: int) -> Float32Array:
    """An orthonormal basis, (d, d), for points in principal components, cut into groups."""
    drawn = np.random.default_rng(seed).permutation(len(points))[:POINTS]
    sample = points[drawn]
    basis = np.eye(points.shape[1], dtype=np.float32)[:, _dealt_out(sample, groups)]
    ends = np.cumsum(group_widths(points.shape[1], groups))
    rows = min(ROWS, len(sample))
    turned = sample @ basis
    books = [part[:rows].copy() for part in np.split(turned, ends[:-1], axis=1)]
    for _ in range(TURNS):
        parts = np.split(sample @ basis, ends[:-1], axis=1)
        rebuilt = [_rebuilt(part, books, number) for number, part in enumerate(parts)]
        left, _, right = np.linalg.svd(sample.T.astype(np.float64) @ np.hstack(rebuilt))
        basis = (left @ right).astype(np.float32)
    return basis


def _rebuilt(points: Float32Array, books: list[Float32Array], number: int) -> Float32Array:
    """Points as the means of those that go to the same row; the means are the next rows."""
    book = books[number]
    tensor = torch.from_numpy(np.ascontiguousarray(points))
    codes = nearest_rows(tensor, torch.from_numpy(book)).numpy()
    counts = np.bincount(codes, minlength=len(book))
    sums = np.zeros_like(book)
    np.add.at(sums, codes, points)
    used = counts > 0
    book[used] = sums[used] / counts[used, None]
    rebuilt: Float32Array = book[codes]
    return rebuilt


def _dealt_out(points: Float32Array, groups: int) -> list[int]:
    """Columns in the order of their groups, each next one to the group of smallest product."""
    variances = np.log(np.maximum(points.var(axis=0), 1e-30))
    room = group_widths(points.shape[1], groups)
    members: list[list[int]] = [[] for _ in room]
    totals = np.zeros(groups)
    for column in np.argsort(-variances):
        open_groups = [group for group in range(groups) if len(members[group]) < room[group]]
        chosen = min(open_groups, key=lambda group: (totals[group], group))
        members[chosen].append(int(column))
        totals[chosen] += variances[column] - variances.min() + 1e-9
    return [column for group in members for column in group]
