"""Limits on bytes, and what of a trained model goes into its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cerp
from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    Index,
    PropagatedTables,
    Seen,
    ShippedModel,
    Table,
    decode,
    edges,
    embedding_bytes,
    encode,
    section_bytes,
)
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.formats.titles import titles_of
from cerp.data.ids import Ids
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError
from cerp.evaluation.evaluate import evaluate
from cerp.export import to_arrays
from cerp.export.size_limit import SizeLimit, within
from cerp.export.to_arrays import as_shipped, scorer_of, ship
from cerp.models.recommender import Recommender
from cerp.naming import model_file
from cerp.runs import encodings
from cerp.runs.encodings import Written, best_written, every_encoding
from cerp.runs.fit import fit_all
from cerp.runs.fitted_model import FittedModel
from cerp.runtime import Runtime
from cerp.training.stages import StageResult, train

QUIET = RunOptions(quiet=True)
CONFIG = Config(
    backbone="mf",
    dim=16,
    ordering="degree",
    prune=PruneConfig(epochs=2, batch_size=256),
    train=TrainConfig(epochs=2, evaluate_every=1, batch_size=256, learning_rate=1e-2),
)


def splits() -> Splits:
    return synthetic(120, 80, 1500).split(seed=0)


def fitted(**changes: object) -> FittedModel:
    return fit_all(splits(), replace(CONFIG, **changes), QUIET)[0]


@pytest.mark.parametrize(
    ("method", "budget"), [("cerp", "1KB"), ("cerp", "2.5KB"), ("ud", "1KB"), ("qr", "2KB")]
)
def test_an_embedding_stays_within_its_bytes_and_uses_them(method: str, budget: str):
    model = fitted(method=method, budgets=(budget,))
    taken = embedding_bytes(section_bytes(model.file()))
    allowed = round(float(budget.removesuffix("KB")) * 1000)
    assert model.facts.embedding_bytes == taken
    # A table is filled by whole columns or rows: one of UD's takes 100 bytes in int4.
    assert 0.8 * allowed < taken <= allowed


@pytest.mark.parametrize("budget", [900, 1500, 2500])
@pytest.mark.parametrize("books", [2, 4, 8])
def test_learned_codes_count_in_the_bytes_of_an_embedding(books: int, budget: int):
    model = fitted(budgets=(f"{budget}B",), assignment="learned", codebooks=books)
    sections = section_bytes(model.file())
    # As many bits as tell the rows apart for each of 200 entities, unless that can be deflated.
    assert model.facts.buckets is not None
    assert 0 < sections["codes"] <= books * 25 * (model.facts.buckets - 1).bit_length()
    assert model.facts.code_bytes == sections["codes"]
    assert model.facts.embedding_bytes == embedding_bytes(sections)
    assert embedding_bytes(sections) <= budget
    # In int4, one row more in each book is 8 bytes of values, 2 of scale, and wider codes.
    rows = model.facts.buckets + 1
    larger = books * (25 * (rows - 1).bit_length() + 10 * rows)
    assert 0.8 * budget < embedding_bytes(sections) or larger > budget
    assert "order" not in sections


def test_a_limit_on_the_file_counts_learned_codes():
    model = fitted(budgets=("5KB",), max_file_size="5KB", assignment="learned", codebooks=4)
    assert model.facts.file_bytes is not None
    assert 4500 < model.facts.file_bytes <= 5000


def test_codes_that_do_not_fit_are_refused_with_the_smallest_possible():
    with pytest.raises(ConfigError, match=r"of 100 bytes is too small.*smallest possible takes \d"):
        fitted(budgets=("100B",), assignment="learned", codebooks=8, buckets=8)


@pytest.mark.parametrize("backbone", ["mf", "mlp", "lightgcn"])
@pytest.mark.parametrize("books", [2, 3, 4, 8])
def test_a_file_with_learned_codes_scores_as_its_model(books: int, backbone: str):
    model = fitted(budgets=("80%",), assignment="learned", codebooks=books, backbone=backbone)
    runtime = Runtime(decode(model.file()))
    users = np.arange(120, dtype=np.int32)
    np.testing.assert_allclose(
        runtime.score_all(users), model.score_all(users).detach().numpy(), rtol=1e-4, atol=1e-6
    )
    judged = evaluate(runtime, model.splits, on="test")
    assert judged.mean["ndcg@10"] == pytest.approx(model.metrics["test"]["ndcg@10"], abs=1e-6)
    facts = decode(model.file()).facts
    assert facts["assignment"] == "learned"
    assert not {"hash", "ordering"} & facts.keys()


def test_a_file_of_a_tower_with_batch_norm_scores_as_its_model(tmp_path: Path):
    options = {"hidden": [24, 32], "batch_norm": True}
    config = replace(CONFIG, budgets=("80%",), backbone="mlp", backbone_options=options)
    [model] = fit_all(splits(), config, replace(QUIET, folder=tmp_path))
    users = np.arange(120, dtype=np.int32)
    expected = model.score_all(users).detach().numpy()
    runtime = Runtime(decode(model.file()))
    np.testing.assert_allclose(runtime.score_all(users), expected, rtol=1e-4, atol=1e-6)
    [again] = fit_all(splits(), config, replace(QUIET, folder=tmp_path, resume=True))
    np.testing.assert_allclose(again.score_all(users).detach().numpy(), expected, rtol=1e-6)


def test_several_budgets_of_one_run_share_their_codes_and_are_exact():
    config = replace(CONFIG, budgets=("80%", "90%", "95%"), assignment="learned", codebooks=4)
    models = fit_all(splits(), config, QUIET)
    # 200 entities of 16 dimensions: 20%, 10% and 5% of 3,200 values.
    assert [model.facts.nnz for model in models] == [640, 320, 160]
    first, *others = (decode(model.file()).embedding.tables for model in models)
    for tables in others:
        for mine, theirs in zip(first, tables, strict=True):
            np.testing.assert_array_equal(mine.index.codes, theirs.index.codes)


def test_a_refit_keeps_the_codes_that_were_selected():
    selected = fitted(budgets=("80%",), assignment="learned", codebooks=4)
    again = fitted(budgets=("80%",), assignment="learned", codebooks=4, refit="all")
    mine, theirs = selected.recommender.embedding, again.recommender.embedding
    assert torch.equal(mine.codes, theirs.codes)
    assert not torch.equal(mine.weight, theirs.weight)
    assert again.facts.nnz == 640


def test_the_whole_file_stays_within_its_limit(tmp_path: Path):
    model = fitted(budgets=("8KB",), max_file_size="8KB")
    size = model.save(tmp_path / "model.cerp")
    assert size == (tmp_path / "model.cerp").stat().st_size == model.facts.file_bytes
    # What is kept free for figures and digits that are not known beforehand is little.
    assert 7700 < size <= 8000


def test_what_is_judged_under_a_size_is_what_the_file_holds():
    model = fitted(budgets=("1KB",))
    judged = evaluate(Runtime(decode(model.file())), model.splits, on="valid")
    assert judged.mean["ndcg@10"] == pytest.approx(model.metrics["valid"]["ndcg@10"], abs=1e-6)


def test_the_best_validating_precision_is_chosen(monkeypatch: pytest.MonkeyPatch):
    alone = {}
    for values in ("fp16", "int8", "int4"):
        with monkeypatch.context() as patch:
            patch.setattr("cerp.sizing.precision_plan.PRECISIONS", (values,))
            alone[values] = fitted(budgets=("2KB",), buckets=20).metrics["valid"]["ndcg@10"]
    chosen = fitted(budgets=("2KB",), buckets=20)
    assert len(set(alone.values())) > 1
    assert alone[chosen.encoding.values] == max(alone.values())


def test_an_impossible_size_is_refused_with_the_smallest_possible():
    with pytest.raises(ConfigError, match=r"of 20 bytes is too small.*smallest possible takes \d"):
        fitted(budgets=("20B",))
    with pytest.raises(ConfigError, match=r"a file of 100 bytes is too small.*smallest possible"):
        fitted(budgets=("99%",), max_file_size="100B")
    with pytest.raises(ConfigError, match=r"a file of 100 bytes is too small.*smallest possible"):
        fitted(budgets=("100B",), max_file_size="100B")


def test_the_smallest_possible_size_is_possible():
    with pytest.raises(ConfigError) as refused:
        fitted(budgets=("20B",))
    smallest = str(refused.value).rpartition(" ")[2].replace(",", "")
    assert fitted(budgets=(f"{smallest}B",)).facts.embedding_bytes == int(smallest)


def by_hand() -> ShippedModel:
    weight = np.array([[4.0, -1.0], [0.5, 3.0], [2.0, -0.25]], dtype=np.float32)
    table = Table(Index("identity"), weight, np.ones((3, 2), dtype=bool))
    return ShippedModel({}, Ids.range(1), Ids.range(2), "dot", ComposedEmbedding((table,)))


def test_values_that_do_not_fit_are_left_out_the_smallest_first():
    whole = encode(by_hand(), Encoding())
    # Two fp32 values are 8 bytes, and their places cost at least nothing.
    limit = embedding_bytes(section_bytes(whole)) - 8
    data = within(by_hand(), Encoding(), SizeLimit(embedding=limit))
    embedding = decode(data).embedding
    assert isinstance(embedding, ComposedEmbedding)
    kept = np.abs(embedding.tables[0].weight)
    assert embedding_bytes(section_bytes(data)) <= limit
    assert sorted(kept[kept > 0]) == [4.0, 3.0, 2.0, 1.0, 0.5, 0.25][: (kept > 0).sum()][::-1]


def test_values_are_left_out_for_a_limit_on_the_file_too():
    model = fitted(budgets=("80%",))
    shipped = ship(model.recommender, model.splits, "mf")
    whole = encode(shipped, Encoding())
    data = within(shipped, Encoding(), SizeLimit(file=len(whole) - 100))
    assert len(whole) - 200 < len(data) <= len(whole) - 100


def test_dense_tables_that_do_not_fit_are_refused():
    table = Table(Index("identity"), np.ones((3, 2), dtype=np.float32))
    model = replace(by_hand(), embedding=ComposedEmbedding((table,)))
    with pytest.raises(ConfigError, match="its tables are dense"):
        within(model, Encoding(), SizeLimit(embedding=10))


@pytest.mark.parametrize("values", ["fp32", "int8"])
def test_propagated_tables_rank_as_the_graph_does(values: str):
    model = fitted(backbone="lightgcn", budgets=("80%",))
    data = model.file(Encoding(values=values), graph="tables")
    users = np.arange(120, dtype=np.int32)
    expected = model.recommender.scorer().score_all(users).numpy()
    scores = scorer_of(model.recommender, decode(data)).score_all(users).numpy()
    np.testing.assert_allclose(Runtime(decode(data)).score_all(users), scores, atol=1e-6)
    tolerance = 1e-5 if values == "fp32" else 0.02 * np.abs(expected).max()
    np.testing.assert_allclose(scores, expected, atol=tolerance)


def test_only_lightgcn_has_propagated_tables():
    model = fitted(budgets=("80%",))
    with pytest.raises(ConfigError, match="'mf' has no graph"):
        model.file(graph="tables")


def test_titles_are_found_by_id(tmp_path: Path):
    path = tmp_path / "titles.tsv"
    path.write_text('item\ttitle\n7\tAlien, "uncut"\n3\tHeat\n', encoding="utf-8")
    assert titles_of(Ids([3, 5, 7]), path) == {3: "Heat", 7: 'Alien, "uncut"'}


def test_titles_of_movielens_are_read_as_they_are(tmp_path: Path):
    path = tmp_path / "u.item"
    path.write_bytes("1|Les Misérables (1995)|01-Jan-1995||\n".encode("latin-1"))
    assert titles_of(Ids([1]), path) == {1: "Les Misérables (1995)"}


def test_titles_of_other_items_are_refused(tmp_path: Path):
    path = tmp_path / "titles.csv"
    path.write_text("item,title\n9,Nine\n", encoding="utf-8")
    with pytest.raises(DataError, match="none of its 1 ids is an item of the data"):
        titles_of(Ids([1, 2]), path)


def entitled() -> Splits:
    data = synthetic(120, 80, 1500)
    return replace(data, titles={data.items.values[1]: "The Second"}).split(seed=0)


def titles_in(file: bytes) -> list[str] | None:
    return decode(file).titles


@pytest.mark.parametrize("refit", [None, "train+valid", "all"])
def test_titles_of_the_data_go_into_the_file_and_others_are_called_by_their_ids(refit: str | None):
    splits = entitled()
    model = fit_all(splits, replace(CONFIG, budgets=("80%",), refit=refit), QUIET)[0]
    found = titles_in(model.file())
    assert found is not None
    first, _, third = splits.items.values[:3].tolist()
    assert found[:3] == [str(first), "The Second", str(third)]
    assert model.facts.file_bytes == len(model.file())


def test_a_limited_file_spends_no_bytes_on_titles_unless_they_are_asked_for():
    limited = replace(CONFIG, budgets=("9KB",), max_file_size="9KB")
    model = fit_all(entitled(), limited, QUIET)[0]
    assert titles_in(model.file()) is None
    asked_for = model.file(titles={1: "One"}, limit=SizeLimit(file=20_000))
    assert "One" in (titles_in(asked_for) or [])


def test_a_chosen_precision_is_that_of_the_file_and_of_the_figures():
    model = fitted(budgets=("80%",), value_precision="int4")
    assert model.facts.values == "int4"
    judged = evaluate(Runtime(decode(model.file())), model.splits, on="test")
    assert judged.mean["ndcg@10"] == pytest.approx(model.metrics["test"]["ndcg@10"], abs=1e-6)


def test_a_method_that_cannot_be_shipped_says_so_under_a_limit_on_bytes():
    with pytest.raises(ConfigError, match="cannot be written to a model file"):
        fitted(method="dhe", budgets=("5KB",))


def test_export_says_why_a_method_cannot_be_shipped():
    model = fitted(method="dhe", budgets=("80%",))
    with pytest.raises(ConfigError, match="cannot be written to a model file"):
        best_written(every_encoding(model), "edges")


def test_large_tables_are_written_only_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    model = fitted(backbone="lightgcn", budgets=("80%",))
    values = model.splits.num_entities * CONFIG.dim
    for most, graphs in ((values, {"edges", "tables"}), (values - 1, {"edges"})):
        monkeypatch.setattr(encodings, "MOST_TABLED", most)
        assert {entry.graph for entry in every_encoding(model)} == graphs
    assert {entry.graph for entry in every_encoding(model, graph="tables")} == {"tables"}


def test_what_users_have_seen_is_coded_once_and_before_tables_are_there(
    monkeypatch: pytest.MonkeyPatch,
):
    model = fitted(backbone="lightgcn", budgets=("80%",))
    edges.encode_seen(Seen(np.array([0, 1]), np.array([0], np.int32)), 1, None)  # kept instead
    lines, vectors = edges._lines, to_arrays.final_vectors
    order: list[str] = []

    def coded(*given: Any) -> Any:
        order.append("seen")
        return lines(*given)

    def propagated(recommender: Recommender) -> PropagatedTables:
        order.append("tables")
        return vectors(recommender)

    monkeypatch.setattr(edges, "_lines", coded)
    monkeypatch.setattr(to_arrays, "final_vectors", propagated)
    model.file(Encoding("int8"), graph="tables")
    assert order == ["seen", "tables"]


def test_tables_are_the_same_however_many_users_are_made_together(monkeypatch: pytest.MonkeyPatch):
    model = fitted(backbone="lightgcn", budgets=("80%",))
    assert model.recommender is not None
    whole = to_arrays.final_vectors(model.recommender)
    monkeypatch.setattr(to_arrays, "USERS_AT_ONCE", 7)
    parts = to_arrays.final_vectors(model.recommender)
    assert np.array_equal(parts.users, whole.users)
    assert np.array_equal(parts.items, whole.items)


def test_a_lightgcn_without_tables_of_its_own_is_saved_as_propagated_ones(tmp_path: Path):
    model = fitted(method="dhe", backbone="lightgcn", budgets=("80%",))
    model.save(tmp_path / "model.cerp")
    [user] = model.splits.users.decode([0])
    assert model.recommend(user, 3) == cerp.load(tmp_path / "model.cerp").recommend(user, 3)


def test_a_finished_candidate_is_not_trained_again_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stages: list[str] = []

    def noted(*arguments: object, label: str, **options: object) -> StageResult:
        stages.append(label)
        if len(stages) == 2:
            raise KeyboardInterrupt
        return train(*arguments, label=label, **options)

    monkeypatch.setattr("cerp.runs.vector_pipeline.train", noted)
    config = replace(CONFIG, budgets=("1KB",))
    options = replace(QUIET, folder=tmp_path / "run", resume=True)
    with pytest.raises(KeyboardInterrupt):
        fit_all(splits(), config, options)
    (model,) = fit_all(splits(), config, options)
    assert stages == [f"train 1KB {values}" for values in ("fp16", "int8", "int8", "int4")]
    assert model.metrics == fitted(budgets=("1KB",)).metrics
    assert not list(options.folder.glob(".*.safetensors"))


def test_a_refit_that_was_interrupted_keeps_what_selected_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stages: list[str] = []

    def noted(*arguments: object, label: str, **options: object) -> StageResult:
        stages.append(label)
        if stages.count("refit 80%") == 1:
            raise KeyboardInterrupt
        return train(*arguments, label=label, **options)

    monkeypatch.setattr("cerp.runs.vector_pipeline.train", noted)
    config = replace(CONFIG, budgets=("80%",), refit="train+valid")
    options = replace(QUIET, folder=tmp_path / "run", resume=True)
    with pytest.raises(KeyboardInterrupt):
        fit_all(splits(), config, options)
    fit_all(splits(), config, options)
    assert stages == ["train 80%", "refit 80%", "refit 80%"]


def test_equal_limits_are_trained_once_and_read_back_in_their_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    labels: list[str] = []

    def noted(*arguments: object, label: str, **options: object) -> StageResult:
        labels.append(label)
        return train(*arguments, label=label, **options)

    monkeypatch.setattr("cerp.runs.vector_pipeline.train", noted)
    # 80% of 3,200 values: both precisions have room for all 640 of them.
    config = replace(CONFIG, budgets=("80%",), max_file_size="50KB")
    chosen = []
    for precisions in (("fp16", "int4"), ("int4", "fp16")):
        monkeypatch.setattr("cerp.sizing.precision_plan.PRECISIONS", precisions)
        options = replace(QUIET, folder=tmp_path / precisions[0], resume=True)
        (first,) = fit_all(splits(), config, options)
        (again,) = fit_all(splits(), config, options)
        assert again.encoding == first.encoding
        assert again.file() == first.file()
        chosen.append(first.encoding)
    assert labels == ["train 80% fp16", "train 80% int4"]
    assert chosen[0] == chosen[1]  # so it was the second in one of the two orders


def test_a_precision_that_cannot_be_written_is_refused_before_training(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("cerp.runs.vector_pipeline.train", None)
    with pytest.raises(ConfigError, match="cannot be written to a model file"):
        fitted(method="dhe", budgets=("50%",), value_precision="int8")


def test_a_file_is_of_the_precision_asked_for_or_the_best_and_then_the_smallest():
    fp32, fp16, int8, too_large = (
        Written("fp32", "edges", b"12345678", 0.3),
        Written("fp16", "edges", b"1234", 0.3),
        Written("int8", "edges", b"12", 0.2),
        Written("int4", "edges", None, None, "too large"),
    )
    written = [fp32, int8, too_large, fp16, Written("fp16", "tables", b"1", 0.9)]
    assert best_written(written, "edges") == fp16
    assert best_written(written, "edges", "int8") == int8
    with pytest.raises(ConfigError, match="cannot be written so: too large"):
        best_written(written, "edges", "int4")


def test_with_nothing_to_judge_by_a_file_is_of_the_finest_precision_that_fits():
    too_large = Written("fp32", "edges", None, None, "too large")
    fp16, int4 = (Written("fp16", "edges", b"1234", None), Written("int4", "edges", b"1", None))
    assert best_written([too_large, int4, fp16], "edges") == fp16


def test_a_lightgcn_file_cannot_leave_out_its_graph():
    with pytest.raises(ConfigError, match="graph=tables store_seen=False"):
        fitted(backbone="lightgcn", budgets=("80%",), store_seen=False)


@pytest.mark.parametrize("size", ["1500B", "2000B", "2500B", "3000B"])
def test_a_model_is_saved_within_its_limit_as_the_run_writes_it(tmp_path: Path, size: str):
    model = fit_all(splits(), replace(CONFIG, budgets=(size,)), replace(QUIET, folder=tmp_path))[0]
    model.save(tmp_path / "saved.cerp")
    written = (model_file(tmp_path, size)).read_bytes()
    assert (tmp_path / "saved.cerp").read_bytes() == written
    assert embedding_bytes(section_bytes(written)) <= int(size.removesuffix("B"))


@pytest.mark.parametrize(("method", "size"), [("cerp", "7000B"), ("ud", "6500B")])
def test_a_refit_has_room_for_the_interactions_that_it_adds(method: str, size: str):
    # The graph takes most of the file, and a refit adds almost a third to it.
    wide = synthetic(400, 300, 3000).split(seed=0)
    limits = {"budgets": (size,), "max_file_size": size}
    config = replace(CONFIG, method=method, backbone="lightgcn", refit="all", **limits)
    model = fit_all(wide, config, QUIET)[0]
    assert model.facts.file_bytes <= int(size.removesuffix("B"))
    assert stored_values(model.file()) == model.facts.stored_count


def stored_values(data: bytes) -> int:
    embedding = decode(data).embedding
    assert isinstance(embedding, ComposedEmbedding)
    return sum(int(table.stored.sum()) for table in embedding.tables)


def test_a_narrow_table_below_a_network_stays_within_a_file_size():
    # The network's first layer grows with the table: it is reckoned with at its largest.
    model = fitted(method="ud", backbone="mlp", budgets=("5500B",), max_file_size="5500B")
    assert 4000 < model.facts.file_bytes <= 5500


def test_the_limit_of_a_model_is_that_of_its_own_encoding_alone():
    model = fitted(budgets=("50%",))
    size = len(model.file()) - 100
    limited = replace(model, size=SizeLimit(file=size))
    assert len(limited.file()) <= size < len(limited.file(Encoding("fp32")))


def test_a_recommender_as_shipped_stores_what_its_file_stores():
    model = fitted(budgets=("50%",))
    data = within(ship(model.recommender, model.splits, "mf"), Encoding(), SizeLimit(1000))
    twin = as_shipped(model.recommender, decode(data))
    assert twin.embedding.cost().stored_count == stored_values(data)
    assert stored_values(data) < model.facts.stored_count


def test_values_that_are_rounded_to_zero_are_stored_all_the_same():
    model = fitted(budgets=("50%",), value_precision="int4")
    weight = model.recommender.embedding.weight
    assert torch.count_nonzero(weight) < model.facts.nnz == stored_values(model.file())


def test_a_file_is_not_judged_on_what_it_was_refitted_on():
    model = fitted(budgets=("50%",), refit="all")
    with pytest.raises(DataError, match="the model was refitted on the valid and test part"):
        evaluate(Runtime(decode(model.file())), splits())
