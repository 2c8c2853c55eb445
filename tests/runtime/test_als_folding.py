"""Someone new in a file of ALS: the user's least squares, with the mean user beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cerp.artifact import Encoding, decode, encode
from cerp.artifact.container import pack, unpack
from cerp.artifact.model import LeastSquares
from cerp.errors import ConfigError, MalformedFileError
from cerp.runtime import Runtime, folding
from cerp.runtime.folding import AlsFoldIn
from plain_decoder import metadata_of
from small_models import small_model

TOLD = LeastSquares(alpha=3.0, regularization=0.5)


def vectors(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    users, items = rng.standard_normal((20, 5)), rng.standard_normal((30, 5))
    return users.astype(np.float32), items.astype(np.float32)


def test_the_vector_minimises_what_is_documented():
    users, items = vectors()
    liked = np.array([2, 7, 11], dtype=np.int32)
    mean = users.mean(axis=0, dtype=np.float64)
    found = AlsFoldIn(mean, items, TOLD).vector(liked)
    gram = items.T @ items + TOLD.regularization * np.eye(5)
    weights, wanted = np.ones(30), np.zeros(30)
    weights[liked], wanted[liked] = TOLD.alpha, 1

    def loss(z: np.ndarray) -> float:
        misses = weights @ (wanted - items @ z) ** 2
        return misses + TOLD.regularization * z @ z + 0.1 * (z - mean) @ gram @ (z - mean)

    steps = 1e-3 * np.eye(5)
    assert all(loss(found) < loss(found + sign * step) for step in steps for sign in (1, -1))


def test_without_the_mean_user_it_is_what_the_package_computes(monkeypatch: pytest.MonkeyPatch):
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    monkeypatch.setattr(folding, "MEAN_USER", 0.0)
    users, items = vectors()
    liked = np.array([2, 7, 11], dtype=np.int32)
    model = AlternatingLeastSquares(factors=5, regularization=0.5, alpha=3.0, num_threads=1)
    model.user_factors, model.item_factors = users, items
    row = csr_matrix((np.ones(3, dtype=np.float32), ([0] * 3, liked)), shape=(1, 30))
    theirs = model.recalculate_user(0, row)
    found = AlsFoldIn(users.mean(axis=0, dtype=np.float64), items, TOLD).vector(liked)
    np.testing.assert_allclose(found, theirs, rtol=1e-4)


def test_the_file_says_it_and_older_readers_may_skip_it():
    model = replace(small_model(), folding=TOLD)
    file = encode(model, Encoding())
    assert decode(file).folding == TOLD
    assert metadata_of(file)["folding"] == {"alpha": 3.0, "regularization": 0.5}
    assert "folding" in metadata_of(file)["optional"]
    assert "folding" not in metadata_of(encode(small_model(), Encoding()))
    items = Runtime(model).items.values.tolist()[:3]
    found = Runtime(decode(file)).recommend_for(items)
    assert found == Runtime(model).recommend_for(items)
    assert found != Runtime(small_model()).recommend_for(items)


@pytest.mark.parametrize("change", [{"alpha": 0}, {"regularization": "x"}, {"alpha": 1e7}])
def test_a_forged_entry_is_refused(change: dict[str, object]):
    content = unpack(encode(replace(small_model(), folding=TOLD), Encoding()))
    metadata = {k: v for k, v in content.metadata.items() if k not in ("crc32", "format")}
    metadata["folding"].update(change)
    with pytest.raises(MalformedFileError, match="must be a number from 1e-06 to 1e"):
        decode(pack(metadata, dict(content.tensors)))


def test_it_goes_with_vectors_that_are_multiplied_alone():
    with pytest.raises(ConfigError, match="dot products alone"):
        encode(replace(small_model("lightgcn"), folding=TOLD), Encoding())
