"""Codes of groups of columns."""

from __future__ import annotations

import numpy as np

from cerp.assignment.field_rule import Layout
from cerp.assignment.grouped_codes import grouped_codes


def test_groups_of_columns_have_books_of_their_own():
    # Each pair of columns takes one of three values, whatever the other pair takes: 9 vectors.
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 3, 2)).astype(np.float32)
    numbers = np.array([(first, second) for first in range(3) for second in range(3)] * 5)
    vectors = np.concatenate([left[numbers[:, 0]], right[numbers[:, 1]]], axis=1)
    found = grouped_codes(vectors, None, Layout(groups=2, books=1, rows=3, columns=4))
    assert found.codes.shape == (45, 2)
    assert found.mask.sum() == 12
    assert not found.books[~found.mask].any()
    books = found.books.reshape(2, 3, 4)
    rebuilt = books[0][found.codes[:, 0]] + books[1][found.codes[:, 1]]
    np.testing.assert_allclose(rebuilt, vectors, atol=1e-4)
