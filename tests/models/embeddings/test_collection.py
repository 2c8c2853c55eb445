"""Many fields under one budget, in values or in bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cerp.errors import BudgetError, ConfigError, DataError
from cerp.nn import EmbeddingCollection
from embedding_contract import seeded

FIELDS = {"country": 5, "user": 300, "item": 200}


def collection(budget: str = "80%") -> EmbeddingCollection:
    return EmbeddingCollection(FIELDS, 4, budget=budget, generator=seeded())


def test_small_fields_are_whole_and_the_others_share_one_budget():
    made = collection()
    assert made.limit == 404  # 20% of 505 x 4
    assert made.dense_fields == ["country"]
    assert made.shared_limit == 404 - 5 * 4
    ids = torch.tensor([[0, 7, 3], [4, 299, 199]])
    vectors = made(ids)
    assert vectors.shape == (2, 3, 4)
    by_name = made({"item": ids[:, 2], "country": ids[:, 0]})
    assert torch.equal(by_name["item"], vectors[:, 2])
    assert torch.equal(by_name["country"], vectors[:, 0])
    assert made.shared is not None
    assert torch.equal(vectors[:, 2], made.shared(ids[:, 2] + 300))


def test_pruning_a_collection_meets_the_budget_and_reports_each_field():
    made = collection()
    pruner = made.pruner(steps=5)
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        made(torch.tensor([[0, 7, 3]])).sum().backward()
        optimizer.step()
        pruner.step()
    pruner.finish()
    assert made.nnz == made.limit
    report = {one.name: one for one in made.report()}
    assert report["country"].is_dense
    assert report["country"].average_dimension == 4
    usage = made.shared.diagnostics().average_dimension
    mean = (300 * report["user"].average_dimension + 200 * report["item"].average_dimension) / 500
    assert mean == pytest.approx(usage)


@pytest.mark.parametrize("ids", [[[5, 0, 0]], [[0, 300, 0]], [[0, 0, -1]], [[0, 0, 200]]])
def test_an_id_of_another_field_is_refused(ids: list[list[int]]):
    with pytest.raises(IndexError):
        collection()(torch.tensor(ids))


def test_columns_and_names_must_be_those_of_the_fields():
    with pytest.raises(DataError, match="2 columns"):
        collection()(torch.tensor([[0, 1]]))
    with pytest.raises(DataError, match="unknown field 'shop'"):
        collection()({"shop": torch.tensor([0])})
    with pytest.raises(ConfigError, match="needs fields"):
        EmbeddingCollection({}, 4, budget="80%")


def test_a_state_is_taken_over():
    saved, fresh = collection(), collection()
    saved.shared.project(saved.shared_limit)
    fresh.load_state_dict(saved.state_dict())
    ids = torch.tensor([[0, 7, 3]])
    assert torch.equal(fresh(ids), saved(ids))
    assert np.isclose(fresh.nnz, saved.nnz)


# Rows learned from trained tables


def trained() -> dict[str, torch.Tensor]:
    """Tables of 20 groups of ids that are alike."""
    centres = torch.randn(20, 4, generator=seeded())
    return {name: centres[torch.arange(size) % 20] for name, size in FIELDS.items()}


def learned(budget: str = "80%", **options) -> EmbeddingCollection:
    return EmbeddingCollection(FIELDS, 4, budget=budget, tables=trained(), **options)


def test_rows_learned_from_tables_begin_with_their_vectors_within_the_budget():
    made = learned()
    assert made.nnz == made.limit <= 404
    ids = torch.tensor([[0, 7, 3], [4, 299, 199]])
    wanted = torch.stack([trained()[name][ids[:, place]] for place, name in enumerate(FIELDS)], 1)
    assert torch.equal(made(ids)[:, 0], wanted[:, 0])  # a field that is stored whole
    assert (made(ids) - wanted).square().mean() < 0.05 * wanted.square().mean()
    made(ids).sum().backward()
    assert made.shared.weight.grad is not None


def test_ids_that_occur_often_are_nearer_to_their_vectors():
    table = {"item": torch.randn(200, 4, generator=seeded())}
    counts = np.where(np.arange(200) < 20, 10_000, 1)
    errors = {}
    for name, known in (("even", None), ("by counts", {"item": counts})):
        made = EmbeddingCollection({"item": 200}, 4, budget="95%", tables=table, counts=known)
        missed = made(torch.arange(200).unsqueeze(1)).squeeze(1) - table["item"]
        errors[name] = missed[:20].square().mean().item()
    assert errors["by counts"] < errors["even"]


def test_a_report_says_the_bits_of_codes():
    report = {one.name: one for one in learned().report()}
    assert report["country"].code_bits == 0
    assert 0 < report["user"].code_bits <= 3 * 4


@pytest.mark.parametrize("tables", [None, trained()])
def test_a_budget_in_bytes_is_kept(tables):
    made = EmbeddingCollection(FIELDS, 4, budget="1KB", tables=tables, generator=seeded())
    if tables is None:
        pruner = made.pruner(steps=1)
        pruner.step()
        pruner.finish()
    assert made.stored_bytes <= 1000
    assert made.nnz == made.limit


def test_bytes_without_room_are_refused():
    for tables in (None, trained()):
        with pytest.raises(BudgetError, match="give a larger budget"):
            EmbeddingCollection(FIELDS, 4, budget="40B", tables=tables)


def test_tables_and_counts_must_be_those_of_the_fields():
    tables = trained()
    some = {name: tables[name] for name in ("country", "user")}
    with pytest.raises(DataError, match="'item' has no table"):
        EmbeddingCollection(FIELDS, 4, budget="80%", tables=some)
    with pytest.raises(DataError, match=r"table of field 'item' has the shape \(300, 4\)"):
        EmbeddingCollection(FIELDS, 4, budget="80%", tables=tables | {"item": tables["user"]})
    with pytest.raises(DataError, match="'country' has no line of counts"):
        learned(counts={})
    with pytest.raises(ConfigError, match="give tables as well"):
        EmbeddingCollection(FIELDS, 4, budget="80%", counts={})
    with pytest.raises(ConfigError, match="leave out positions"):
        learned(positions=np.arange(500))
    with pytest.raises(ConfigError, match="within the budget already"):
        learned().pruner(steps=1)


# Export


@pytest.mark.parametrize("tables", [None, trained()])
def test_a_collection_is_exported_for_any_number_of_rows(tables):
    made = EmbeddingCollection(FIELDS, 4, budget="80%", tables=tables, generator=seeded())
    if tables is None:
        made.shared.project(made.shared_limit)
    ids = torch.tensor([[0, 7, 3], [4, 299, 199]])
    rows = torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(made, (ids,), dynamic_shapes=({0: rows},))
    many = ids.repeat(500, 1)
    torch.testing.assert_close(program.module()(many), made(many))


def test_ids_that_training_never_names_share_one_vector():
    torch.manual_seed(0)
    fields = {"user": 300, "item": 200}
    trained = {name: torch.randn(size, 8) for name, size in fields.items()}
    counts = {name: np.arange(size) % 3 for name, size in fields.items()}
    made = EmbeddingCollection(fields, 8, budget="90%", tables=trained, counts=counts)
    assert made.shared is not None
    vectors = made.shared.table().detach()
    unnamed = torch.from_numpy(np.concatenate(list(counts.values())) == 0)
    assert len(vectors[unnamed].unique(dim=0)) == 1
    wanted = torch.cat(list(trained.values()))
    known = (vectors - wanted)[~unnamed].square().mean()
    assert known < 0.7 * wanted[~unnamed].square().mean()


def test_counts_of_ids_that_training_never_names_alone_weigh_nothing():
    trained = {"user": torch.randn(300, 8, generator=torch.manual_seed(0))}
    never = {"user": np.zeros(300, dtype=np.int64)}
    first = EmbeddingCollection({"user": 300}, 8, budget="90%", tables=trained, counts=never)
    second = EmbeddingCollection({"user": 300}, 8, budget="90%", tables=trained)
    assert first.shared is not None
    assert second.shared is not None
    assert torch.equal(first.shared.codes, second.shared.codes)
