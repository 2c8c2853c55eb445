"""Embeddings of any model as files: for lookups, as arrays, and as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cerp
from cerp.errors import CerpError, ConfigError, DataError
from cerp.methods.hashed import HashedEmbedding
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.nn import CompositionalEmbedding, EmbeddingCollection, save_embedding
from embedding_contract import seeded

ORDER = np.random.default_rng(0).permutation(60)
CODES = np.random.default_rng(1).integers(0, 9, (60, 3)).astype(np.int32)


def pruned(embedding: CompositionalEmbedding) -> CompositionalEmbedding:
    embedding.project(90)
    return embedding


KINDS: dict[str, Any] = {
    "full": lambda: FullEmbedding(60, 4, generator=seeded()),
    "hashed": lambda: HashedEmbedding(60, 4, rows=11, generator=seeded()),
    "two books": lambda: pruned(CompositionalEmbedding(60, 4, buckets=12)),
    "ordered": lambda: pruned(CompositionalEmbedding(60, 4, buckets=12, positions=ORDER)),
    "padded": lambda: CompositionalEmbedding(60, 4, 7, buckets=12),
    "codes": lambda: pruned(CompositionalEmbedding(60, 4, codes=CODES)),
    "padded codes": lambda: CompositionalEmbedding(60, 4, 0, codes=CODES),
}


@pytest.fixture(params=KINDS)
def embedding(request: pytest.FixtureRequest) -> Embedding:
    torch.manual_seed(0)
    made: Embedding = KINDS[request.param]()
    return made


def table(embedding: Embedding) -> np.ndarray:
    return embedding.table().detach().numpy()


def test_a_file_for_lookups_gives_the_vectors_back(embedding: Embedding, tmp_path: Path):
    size = save_embedding(embedding, tmp_path / "e.cerp", values="fp32")
    assert size == (tmp_path / "e.cerp").stat().st_size
    np.testing.assert_allclose(
        cerp.load(tmp_path / "e.cerp").vectors(), table(embedding), atol=1e-6
    )
    save_embedding(embedding, tmp_path / "e.cerp")  # values in eight bits
    np.testing.assert_allclose(
        cerp.load(tmp_path / "e.cerp").vectors(), table(embedding), atol=0.01
    )


def test_ids_are_kept(tmp_path: Path):
    made = KINDS["codes"]()
    names = [f"item {number}" for number in range(60)]
    save_embedding(made, tmp_path / "e.cerp", ids=names, values="fp32")
    found = cerp.load(tmp_path / "e.cerp").vectors(["item 3"])
    np.testing.assert_allclose(found, table(made)[3:4], atol=1e-6)
    with pytest.raises(DataError, match="3 ids for 60"):
        save_embedding(made, tmp_path / "e.cerp", ids=names[:3])


def test_an_array_has_a_row_for_each_id(embedding: Embedding, tmp_path: Path):
    save_embedding(embedding, tmp_path / "e.npy")
    assert np.array_equal(np.load(tmp_path / "e.npy"), table(embedding))


def test_onnx_gives_the_vectors_of_ids(embedding: Embedding, tmp_path: Path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    for values, tolerance in (("fp32", 1e-6), ("int8", 0.01), ("int4", 0.2)):
        save_embedding(embedding, tmp_path / "e.onnx", values=values)
        session = onnxruntime.InferenceSession(
            tmp_path / "e.onnx", providers=["CPUExecutionProvider"]
        )
        for ids in (np.arange(60), np.array([7, 0, 59, 7])):
            (found,) = session.run(None, {"ids": ids.astype(np.int64)})
            np.testing.assert_allclose(found, table(embedding)[ids], atol=tolerance)


def test_onnx_in_eight_bits_is_as_small_as_its_rows(tmp_path: Path):
    pytest.importorskip("onnx")
    made = CompositionalEmbedding(10_000, 32, buckets=500)
    size = save_embedding(made, tmp_path / "e.onnx")
    assert size < 1000 * (32 + 4) + 10_000 * 2 * 2 + 2000
    size = save_embedding(made, tmp_path / "e.onnx", values="int4")
    assert size < 1000 * (16 + 4) + 10_000 * 2 * 2 + 4000


@pytest.mark.parametrize("values", ["fp32", "int8", "int4"])
def test_onnx_of_a_pruned_table_is_about_as_small_as_the_file(values: Any, tmp_path: Path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    made = CompositionalEmbedding(10_000, 64, buckets=1_000)
    made.project(6_400)  # 99% fewer values than a full table, of 128,000 in the books
    sizes = [save_embedding(made, tmp_path / name, values=values) for name in ("e.cerp", "e.onnx")]
    assert sizes[1] < 1.4 * sizes[0] + 2_000  # columns are a byte each, and there are the steps
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx", providers=["CPUExecutionProvider"])
    ids = np.arange(0, 10_000, 7)
    (found,) = session.run(None, {"ids": ids})
    wanted = cerp.load(tmp_path / "e.cerp").vectors(ids)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_onnx_of_a_table_without_values_gives_zeros(tmp_path: Path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    made = CompositionalEmbedding(60, 16, buckets=12)
    made.restrict(torch.zeros_like(made.weight, dtype=torch.bool))
    for values in ("fp32", "int8", "int4"):
        save_embedding(made, tmp_path / "e.onnx", values=values)
        session = onnxruntime.InferenceSession(
            tmp_path / "e.onnx", providers=["CPUExecutionProvider"]
        )
        (found,) = session.run(None, {"ids": np.arange(60)})
        assert np.array_equal(found, np.zeros((60, 16)))


def test_onnx_counts_back_and_refuses_ids_that_are_not_there(embedding: Embedding, tmp_path: Path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    save_embedding(embedding, tmp_path / "e.onnx", values="fp32")
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"ids": np.array([-1, -60])})
    np.testing.assert_allclose(found, table(embedding)[[59, 0]], atol=1e-6)
    for id_ in (60, -61):
        with pytest.raises(Exception, match=r"out of .*bound"):
            session.run(None, {"ids": np.array([id_])})


@pytest.mark.parametrize("dim", [4, 5])
def test_onnx_in_four_bits_gives_what_a_file_in_four_bits_gives(dim: int, tmp_path: Path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    torch.manual_seed(0)
    made = CompositionalEmbedding(60, dim, codes=CODES)
    save_embedding(made, tmp_path / "int4.onnx", values="int4")
    save_embedding(made, tmp_path / "e.cerp", values="int4")
    session = onnxruntime.InferenceSession(
        tmp_path / "int4.onnx", providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"ids": np.arange(60)})
    np.testing.assert_allclose(found, cerp.load(tmp_path / "e.cerp").vectors(), atol=1e-6)
    assert (found < 0).any()
    assert (found > 0).any()


@pytest.mark.parametrize("name", ["e.bin", "e"])
def test_an_ending_that_says_nothing_is_refused(name: str, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"\.cerp, \.npy or \.onnx"):
        save_embedding(KINDS["codes"](), tmp_path / name)


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="fp32, int8 or int4, not fp16"):
        save_embedding(KINDS["codes"](), tmp_path / "e.onnx", values="fp16")
    with pytest.raises(CerpError, match="ids are kept in a "):
        save_embedding(KINDS["codes"](), tmp_path / "e.npy", ids=list(range(60)))


FIELDS = {"country": 3, "user": 200, "item": 100}


def collected(budget: str, *, is_learned: bool) -> EmbeddingCollection:
    """Three fields under one budget, with rows from tables or pruned rows by a hash."""
    tables = {name: torch.randn(size, 8, generator=seeded()) for name, size in FIELDS.items()}
    torch.manual_seed(0)
    if is_learned:
        return EmbeddingCollection(FIELDS, 8, budget=budget, tables=tables)
    made = EmbeddingCollection(FIELDS, 8, budget=budget)
    if made.shared is not None:
        with pytest.warns(UserWarning, match="never stepped"):
            made.pruner(steps=1).finish()
    return made


@pytest.mark.parametrize(
    ("budget", "is_learned", "whole"),
    [("80%", True, 1), ("80%", False, 1), ("1KB", True, 1), ("10KB", False, 3)],
)
def test_a_collection_is_one_file_of_its_fields(
    budget: str, is_learned: bool, whole: int, tmp_path: Path
):
    made = collected(budget, is_learned=is_learned)
    assert len(made.dense) == whole
    made.eval()
    names = [f"user-{number}" for number in range(200)]
    size = made.save(tmp_path / "fields.cerp", ids={"user": names}, values="fp32")
    assert size == (tmp_path / "fields.cerp").stat().st_size
    found = cerp.load(tmp_path / "fields.cerp")
    assert isinstance(found, cerp.FieldLookups)
    with torch.no_grad():
        wanted = made({name: torch.arange(count) for name, count in FIELDS.items()})
    for name, vectors in wanted.items():
        np.testing.assert_allclose(found[name].vectors(), vectors.numpy(), atol=1e-6)
    asked = found["user"].vectors(["user-7"])
    np.testing.assert_allclose(asked[0], wanted["user"][7].numpy(), atol=1e-6)


def test_what_a_file_of_fields_does_not_take_is_refused(tmp_path: Path):
    made = collected("80%", is_learned=True)
    with pytest.raises(ConfigError, match=r"all fields together go to a \.cerp file"):
        made.save(tmp_path / "fields.onnx")
    with pytest.raises(ConfigError, match="by field"):
        save_embedding(made, tmp_path / "fields.cerp", ids=["a", "b"])
    with pytest.raises(DataError, match="unknown field 'users'; there are country, user, item"):
        made.save(tmp_path / "fields.cerp", ids={"users": range(200)})
    with pytest.raises(DataError, match="2 ids for 3 ids of field 'country'"):
        made.save(tmp_path / "fields.cerp", ids={"country": ["at", "ch"]})


def test_an_embedding_saves_itself(tmp_path: Path):
    embedding = CompositionalEmbedding(60, 4, buckets=12)
    assert embedding.save(tmp_path / "e.npy") == (tmp_path / "e.npy").stat().st_size
    np.testing.assert_array_equal(np.load(tmp_path / "e.npy"), table(embedding))
