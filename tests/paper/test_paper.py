from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from cerp.artifact import Encoding, write
from cerp.cli import app
from cerp.comparison.results import Result, Results
from cerp.comparison.statistics import ENOUGH_SEEDS
from cerp.config import Config, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError
from cerp.evaluation.metrics import JUDGING
from cerp.paper.build_record import compared_run, new_record, pattern, readings_of_test, take_over
from cerp.paper.figures import heatmap, sensitivity
from cerp.paper.json_rows import rows
from cerp.paper.method_table import improvement
from cerp.paper.planning import Planned, plan, restricted
from cerp.paper.published import published_rows
from cerp.paper.recipe import Recipe, RecipeRun, read_recipe, recipe_names
from cerp.paper.recipe_page import recipe_page
from cerp.paper.record import Interval, MeasuredCell, MissingCell, Record
from cerp.paper.table_lines import Line, lines
from cerp.presets import teacher_preset
from cerp.runs.fit import fit_all
from results_page.findings import findings
from results_page.method_tables import bytes_parts, leaderboard_parts
from results_page.names import shown_name
from results_page.opening import opening
from results_page.outside import outside_parts
from results_page.page import summary
from results_page.rebuild import RECORDS, rebuild
from results_page.results_index import OLDER, ResultsIndex
from results_page.standing import standing_parts
from small_models import small_model

ROOT = Path(__file__).parents[2]
TABLE2_KEYS = {"method", "dataset", "backbone", "sparsity", "avg_dim", "ndcg10", "recall10"}
TABLE3_KEYS = {"variant", "dataset", "backbone", "sparsity", "avg_dim", "ndcg10", "overlap_pct"}
OUR_KEYS = {"seed", "nnz", "bytes", "preset", "ordering", "refit", "accounting", "seconds"}
OUR_KEYS |= {"assignment", "codebooks", "best_epoch", "test_readings", "judging"}
OUR_KEYS |= {"ndcg20", "recall20", "tail_ndcg10", "coverage10"}
DATA = {"users": 2, "items": 4, "interactions": 2, "density_pct": 25.0, "fingerprint": "f00d"}
DATA |= {"train": 1, "valid": 0, "test": 1}


def result(label: str = "cerp-a", seed: int = 0, ndcg10: float = 0.1, **values: object) -> Result:
    """A made-up result of 99% with LightGCN; 100 values are allowed, and kept."""
    shared = {"fingerprint": "f00d", "version": "1", "device": "cpu", "judging": JUDGING}
    shared = {name: values.pop(name, value) for name, value in shared.items()}
    values = {"config": None, **values}
    counts = {"limit": 100, "nnz": 100, "paper_count": 100, "stored_count": 100}
    figures = {**counts, "sparsity": 0.99, "avg_dim": 2.0}
    found = {"backbone": "lightgcn", "budget": "99%", "recall10": ndcg10 / 2, **figures, **values}
    return Result(label, seed=seed, ndcg10=ndcg10, **shared, **found)


def searched(
    *, epoch: float = 15.0, reached: bool = True, sparsity: float = 0.99
) -> dict[str, Any]:
    return {"epoch": epoch, "reached": reached, "reached_sparsity": sparsity}


def recipe(kind: str, *runs: RecipeRun, setting: str | None = None) -> Recipe:
    return Recipe("made-up", "Made up", kind, "", ("99%",), ("lightgcn",), runs, {}, setting)


# What the paper printed


def test_the_paper_s_rows_are_complete_and_have_its_keys():
    assert [len(published_rows(f"table{number}")) for number in (1, 2, 3)] == [2, 64, 48]
    assert {frozenset(row) for row in published_rows("table2")} == {frozenset(TABLE2_KEYS)}
    stalls = [row["stalls_at"] for row in published_rows("table3") if "stalls_at" in row]
    assert sorted(stalls) == [93.86, 93.86, 94.94, 94.94, 97.0, 97.43]
    [row] = published_rows(
        "table2", method="cerp", dataset="gowalla", backbone="lightgcn", sparsity=99
    )
    assert (row["avg_dim"], row["ndcg10"], row["recall10"]) == (17.99, 0.0831, 0.0816)


# Recipes


def test_table_2_has_all_methods_of_the_paper_and_rivals_from_outside():
    runs = read_recipe("table2").runs
    printed = {"autoemb", "cerp", "dhe", "esapn", "full", "hash", "magnitude", "optembed"}
    printed |= {"pep", "popularity", "qr", "ud"}
    others = {"cce", "cerp-learned", "features", "filter", "graphhash", "legcf", "lowrank", "pca"}
    others |= {"magnitude-best", "magnitude-gradual", "neighbours", "svd"}
    assert {run.method for run in runs} == printed | others


@pytest.mark.parametrize("name", ["table2", "table2-bytes", "other-data"])
def test_every_row_of_a_method_table_has_three_seeds_and_cerp_five(name: str):
    runs = read_recipe(name).runs
    assert runs[1] == RecipeRun("cerp", seeds=5)
    searched = ("popularity", "ease", "filter", "neighbours", "svd")  # no seed changes much
    random = [run for run in runs if run.method not in searched]
    assert all(run.seeds >= ENOUGH_SEEDS for run in random)


def test_what_has_no_vectors_is_run_once_for_all_backbones_and_seeds():
    runs = (RecipeRun("filter", seeds=3), RecipeRun("neighbours", seeds=3))
    made = Recipe("made-up", "Made up", "methods", "", ("90%", "95%"), ("mf", "mlp"), runs)
    jobs = [one.job for one in plan(made, "lastfm")]
    assert [(job.backbone, job.seed, job.budgets) for job in jobs] == [
        (None, 0, (None,)),
        (None, 0, ("90%", "95%")),
    ]


def test_every_recipe_can_be_planned_for_every_data_set():
    assert {"table1", "table2", "table3", "fig-heatmap", "fig-gamma"} < set(recipe_names())
    for name in recipe_names():
        for dataset in ("gowalla", "yelp2020", "ml-1m"):
            planned = plan(read_recipe(name), dataset)
            assert bool(planned) == (name != "table1")


def test_a_setting_is_varied_over_its_values():
    planned = plan(read_recipe("fig-gamma"), "gowalla")
    gammas = [one.job.config.prune.gamma for one in planned if one.job.backbone == "mlp"]
    assert gammas == [1e-4, 1e-3, 1e-2, 1e-1, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind = 'chart'", "kind is 'chart'; choose one of statistics"),
        ("kind = 'methods'", "trains nothing"),
        ("kind = 'methods'\nbudgts = ['9%']", "no entry 'budgts'; there are: about, backbones"),
        ("kind = 'methods'\n[[run]]\nsed = 1", "no entry 'sed'"),
        ("kind = 'statistics'\nsetting = 'dim'", "a sensitivity, and nothing else"),
        ("kind = methods", "not a readable recipe"),
        ("budgets = ['9%']", r"own\.toml: the recipe lacks the entry 'kind'"),
        ("kind = 'methods'\n[[run]]\nseeds = 1", r"own\.toml: a \[\[run\]\] lacks .* 'method'"),
        ("kind = 'methods'\nbudgets = 9", r"own\.toml: the entry 'budgets' is 9; .* a list"),
        ("kind = 'methods'\nname = 'x'", "the recipe has no entry 'name'"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused_with_a_reason(
    tmp_path: Path, text: str, message: str
):
    path = tmp_path / "own.toml"
    path.write_text(f"title = 'Mine'\n{text}\n")
    with pytest.raises(ConfigError, match=message):
        read_recipe(str(path))


def test_an_unknown_recipe_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match="no recipe 'table4'; choose one of fig-buckets"):
        read_recipe("table4")


# Plans


def named(planned: list[Planned], **wanted: object) -> set[str]:
    return {
        one.job.method
        for one in planned
        if wanted.items() <= (asdict(one.run) | one.__dict__).items()
    }


def test_recipes_share_the_runs_that_they_have_in_common():
    gammas, buckets, ablation = (
        plan(read_recipe(name), "gowalla") for name in ("fig-gamma", "fig-buckets", "table3")
    )
    default = named(gammas, value=1.0)
    assert (
        default == named(buckets, value=5000) == named(ablation, variant="default", preset="paper")
    )
    assert not default & named(gammas, value=1e-2)


def test_the_paper_s_buckets_are_those_of_the_data_set_and_elsewhere_the_rule_s():
    table = read_recipe("fig-gamma")
    found = {name: plan(table, name)[0].job.config for name in ("gowalla", "yelp2020", "ml-1m")}
    assert {name: config.buckets for name, config in found.items()} == {
        "gowalla": 5000,
        "yelp2020": 8000,
        "ml-1m": None,
    }


def test_a_job_s_name_changes_with_its_settings_but_not_with_its_seed():
    first, again = plan(recipe("methods", RecipeRun("ud", seeds=2)), "gowalla")
    [slower] = plan(
        recipe("methods", RecipeRun("ud", settings={"train": {"learning_rate": 1e-4}})), "gowalla"
    )
    assert first.job.method == again.job.method != slower.job.method


def test_what_prunes_the_best_full_table_trains_it_as_the_data_s_own_search_says():
    made = replace(read_recipe("other-data"), runs=(RecipeRun("magnitude-best"), RecipeRun("full")))
    for dataset, decay in (("lastfm", 0.15), ("gowalla", 0.04)):
        pruned, full = (one.job.config for one in plan(made, dataset))
        assert pruned is not None
        assert full is not None
        options = pruned.method_options
        usual = teacher_preset("lightgcn", 128, 0).train
        dense = replace(usual, **options["dense_training"], epochs=options["dense_epochs"])
        assert dense == full.train
        assert dense.weight_decay == decay


def test_what_is_left_of_the_best_full_table_trains_as_other_pruned_tables_do():
    made = replace(
        read_recipe("other-data"), runs=(RecipeRun("magnitude-gradual"), RecipeRun("magnitude"))
    )
    best, plain = (one.job.config for one in plan(made, "lastfm"))
    assert best is not None
    assert plain is not None
    assert best.train == plain.train
    assert best.prune == replace(plain.prune, dense_share=0.0)


def test_a_part_of_a_plan_is_chosen_by_method_backbone_and_budget():
    planned = plan(read_recipe("table2"), "gowalla", seeds=1)
    part = restricted(
        planned, methods=["ud", "full", "popularity"], backbones=["mlp"], budgets=["95%"]
    )
    assert [(one.run.method, one.job.backbone, one.job.budgets) for one in part] == [
        ("ud", "mlp", ("95%",)),
        ("full", "mlp", ("full",)),
        ("popularity", None, (None,)),
    ]
    with pytest.raises(ConfigError, match="has no budget '97%'; it has 90%, 95%, 99%"):
        restricted(planned, budgets=["97%"])


# Rows


def test_rows_of_methods_have_the_paper_s_keys_and_ours():
    full = result("full-a", budget="full", sparsity=0.0)
    popularity = Result("popularity", None, None, 0, None, "f00d", "1", "cpu", ndcg10=0.03)
    runs = [RecipeRun("cerp"), RecipeRun("full"), RecipeRun("popularity")]
    found = [
        MeasuredCell(run, None, one)
        for run, one in zip(runs, (result(), full, popularity), strict=True)
    ]
    made = rows(recipe("methods", *runs), Record("made-up", "gowalla", DATA, found))
    assert {frozenset(row) for row in made} == {frozenset(TABLE2_KEYS | OUR_KEYS)}
    assert [row["sparsity"] for row in made] == [99, 0.0, 100.0]


def test_rows_say_how_entities_get_rows_where_the_result_knows():
    run = RecipeRun("cerp", settings={"assignment": "learned", "codebooks": 4})
    learned = result(assignment="learned", codebooks=4, code_bytes=99)
    record = Record("made-up", "gowalla", DATA, [MeasuredCell(run, None, learned)])
    [row] = rows(recipe("methods", run), record)
    assert (row["assignment"], row["codebooks"]) == ("learned", 4)
    assert Line(run, record.found, []).name == "cerp (learned codes, 4 books)"


def test_a_record_from_before_codes_were_learned_is_read(tmp_path: Path):
    found = MeasuredCell(RecipeRun("cerp"), None, result(config={"method": "cerp"}))
    older = asdict(Record("made-up", "gowalla", DATA, [found]))
    for name in ("assignment", "codebooks", "code_bytes"):
        del older["found"][0]["result"][name]
    (tmp_path / "made-up-runs.json").write_text(json.dumps(older))
    record = Record.read(tmp_path / "made-up-runs.json")
    assert (record.found[0].result.assignment, record.found[0].result.codebooks) == (None, None)
    # All codebooks were a hash's then.
    [row] = rows(recipe("methods", RecipeRun("cerp")), record)
    assert (row["assignment"], row["codebooks"]) == ("hash", 2)


def test_rows_of_an_ablation_have_the_paper_s_keys_and_tell_how_pruning_went():
    run = RecipeRun("cerp", variant="no_gamma_decay")
    stalled = result(overlap=0.25, search=searched(epoch=50, reached=False, sparsity=0.9386))
    record = Record("made-up", "gowalla", DATA, [MeasuredCell(run, "native", stalled)])
    [row] = rows(recipe("ablation", run), record)
    assert row.keys() == TABLE3_KEYS | OUR_KEYS | {"recall10", "pruning_epochs", "stalls_at"}
    assert (row["overlap_pct"], row["pruning_epochs"], row["ordering"]) == (25.0, 50, "native")
    assert row["stalls_at"] == pytest.approx(93.86)


def test_accounting_is_honest_where_every_stored_value_is_counted_and_nothing_else():
    # Just what is counted; a controller besides; fewer weights than there are codes.
    found = [
        MeasuredCell(RecipeRun("dhe"), None, result(stored_count=count)) for count in (100, 101, 99)
    ]
    made = rows(recipe("methods", RecipeRun("dhe")), Record("made-up", "gowalla", DATA, found))
    assert [row["accounting"] for row in made] == ["honest", "paper", "paper"]


def test_bytes_are_those_of_the_file_or_four_for_each_stored_value():
    found = [
        MeasuredCell(RecipeRun("dhe"), None, result(embedding_bytes=size)) for size in (450, None)
    ]
    made = rows(recipe("methods", RecipeRun("dhe")), Record("made-up", "gowalla", DATA, found))
    assert [row["bytes"] for row in made] == [450, 400]


@pytest.mark.parametrize(("method", "dimension"), [("qr", 16), ("hash", 16), ("ud", 4)])
def test_shared_rows_have_all_their_dimensions_as_in_the_paper(method: str, dimension: int):
    config = Config(method=method, backbone="mf", budgets=("75%",), dim=16, ordering="degree")
    splits = synthetic(60, 40, 600).split(seed=0)
    short = replace(config, train=TrainConfig(epochs=1))
    [model] = fit_all(splits, short, RunOptions(quiet=True))
    assert model.facts.avg_dim == dimension


# Tables


def test_an_improvement_is_a_percentage_of_the_other():
    assert improvement(0.0965, 0.0875) == pytest.approx(10.2857, abs=1e-4)
    assert improvement(0.5, 1.0) == -50


def methods_record() -> tuple[Recipe, Record]:
    """CERP .10 and .12, UD .08, PEP not run."""
    cerp, ud, pep = RecipeRun("cerp", seeds=2), RecipeRun("ud"), RecipeRun("pep")
    found = [
        MeasuredCell(cerp, "spectral", result(seed=0, ndcg10=0.10)),
        MeasuredCell(cerp, "spectral", result(seed=1, ndcg10=0.12)),
        MeasuredCell(ud, None, result("ud-a", ndcg10=0.08, recall10=0.11)),
    ]
    missing = [MissingCell(pep, None, "lightgcn", "99%", 0, "not run yet")]
    interval = Interval("ud-a", "lightgcn", "99%", (2, 1), 0.03, 0.01, 0.05, 0.001)
    return recipe("methods", cerp, ud, pep), Record(
        "made-up", "gowalla", DATA, found, missing, [interval]
    )


def test_a_method_table_has_means_the_paper_s_figures_and_cerp_s_gain():
    [section] = recipe_page(*methods_record()).sections
    told = {row[0]: dict(zip(section.header, row, strict=True)) for row in section.rows}
    cerp, ud = told["cerp (spectral ids)"], told["ud"]
    assert (cerp["NDCG@10"], cerp["paper's NDCG@10"]) == ("0.1100 ± 0.0141", "0.0831")
    assert (ud["paper's NDCG@10"], ud["CERP against it"]) == ("0.0416", "+37.5% (too few seeds)")


def test_what_a_narrow_screen_has_room_for_comes_first():
    [section] = recipe_page(*methods_record()).sections
    assert section.header[:3] == ("method", "NDCG@10", "CERP against it")


def test_a_refit_has_a_line_and_a_mark_of_its_own():
    run = RecipeRun("cerp", preset="paper", settings={"refit": "train+valid"})
    refit = MeasuredCell(run, "native", result(config={"refit": "train+valid"}))
    record = Record("made-up", "gowalla", DATA, [refit])
    [section] = recipe_page(recipe("methods", run), record).sections
    assert section.rows[0][0] == "cerp (paper, native ids, refit)"
    assert [row["refit"] for row in rows(recipe("methods", run), record)] == ["train+valid"]


def test_a_method_that_was_not_run_has_a_row_and_is_listed_as_missing():
    shown = recipe_page(*methods_record())
    told = {row[0]: row for row in shown.sections[0].rows}
    pep = dict(zip(shown.sections[0].header, told["pep"], strict=True))
    assert (pep["NDCG@10"], pep["Recall@10"], pep["seeds"]) == ("-", "-", "0 of 1")
    assert "Missing: pep (default), not run yet: lightgcn 99% seed 0." in shown.notes


def test_the_best_other_is_one_that_was_judged_alike():
    made, record = methods_record()
    [before] = [note for note in _notes_of(made, record) if note.startswith("CERP over")]
    assert before.startswith("CERP over the best other: ")
    older = result("qr-a", ndcg10=0.9, recall10=0.9, judging=1)
    found = [*record.found, MeasuredCell(RecipeRun("qr"), "shuffled", older)]
    [after] = [
        note for note in _notes_of(made, replace(record, found=found)) if "CERP over" in note
    ]
    assert after == before.replace("other", "other that was judged alike", 1)


def _notes_of(made: Recipe, record: Record) -> list[str]:
    made = replace(made, runs=(*made.runs, RecipeRun("qr")))
    return [note for section in recipe_page(made, record).sections for note in section.notes]


def test_missing_cells_with_the_same_seeds_are_told_together():
    _, record = methods_record()
    places = [("lightgcn", "90%"), ("lightgcn", "99%"), ("mlp", "90%")]
    missing = [
        MissingCell(RecipeRun("pep"), None, *place, seed, "not run yet")
        for seed in (0, 10)
        for place in places[: 3 if seed == 0 else 2]
    ]
    made, record = recipe("methods", RecipeRun("pep")), replace(record, found=[], missing=missing)
    told = "lightgcn 90%, lightgcn 99% seeds 0, 10; mlp 90% seed 0."
    assert f"Missing: pep (default), not run yet: {told}" in recipe_page(made, record).notes


def test_cerp_s_gain_over_the_best_other_is_given_as_measured_and_as_printed():
    # Ours: .11 / .08 and .055 / .11; .0831 / .0575 and .0816 / .0540, as the paper prints it too.
    [section] = recipe_page(*methods_record()).sections
    assert section.notes == [
        "CERP over the best other: NDCG@10 +37.5% (over ud), Recall@10 -50.0% (over ud).",
        "In the paper: NDCG@10 +44.5% (over qr), Recall@10 +51.1% (over qr).",
        "CERP's NDCG@10, 0.1100, is above the paper's, 0.0831.",
    ]


def test_an_ablation_says_whether_the_penalty_does_what_the_paper_says():
    default, without = RecipeRun("cerp", variant="default"), RecipeRun("cerp", variant="no_penalty")
    found = [
        MeasuredCell(default, None, result(avg_dim=18.5, overlap=0.01, search=searched())),
        MeasuredCell(
            without, None, result("cerp-b", avg_dim=17.0, overlap=0.03, search=searched())
        ),
    ]
    record = Record("made-up", "gowalla", DATA, found)
    [section] = recipe_page(recipe("ablation", default, without), record).sections
    told = dict(zip(section.header, section.rows[0], strict=True))
    assert (told["variant"], told["avg dim"], told["NDCG@10"]) == ("default", "18.50", "0.1000")
    assert (told["overlap"], told["pruning epochs"], told["seeds"]) == ("1.00%", "15.0", "1")
    assert section.rows[0][-4:] == ("17.99", "0.0831", "0.76%", "-")
    assert section.notes == [
        "The penalty changes the average dimension by +1.50 (as in the paper) and the overlap by "
        "-2.00 points (as in the paper)."
    ]


def test_a_stall_is_shown_beside_the_paper_s():
    run = RecipeRun("cerp", variant="no_gamma_decay")
    stalled = result(overlap=0.0, search=searched(epoch=50, reached=False, sparsity=0.951))
    record = Record("made-up", "gowalla", DATA, [MeasuredCell(run, None, stalled)])
    [section] = recipe_page(recipe("ablation", run), record).sections
    told = dict(zip(section.header, section.rows[0], strict=True))
    assert (told["pruning epochs"], told["stalls at"]) == ("50.0", "95.10%")
    assert (told["paper's NDCG@10"], told["paper's stall"]) == ("-", "93.86%")


# Figures


def test_a_sensitivity_draws_every_seed_and_the_paper_s_line():
    drawn = sensitivity("mlp", "gamma", [("a<b", [0.10, 0.12]), ("c", [0.2])], {"paper": 0.15})
    # Halves of what is between 56 and 460 - 24; drawn from the last to the first.
    places = [dot.get("transform", "").split(",")[0] for dot in drawn.iter("path")]
    assert places == ["translate(341.0", "translate(151.0", "translate(151.0"]
    texts = {entry.text for entry in drawn.iter("text")}
    assert {"a<b", "c", "paper: 0.1500", "gamma", "NDCG@10"} <= texts


def test_a_sensitivity_has_every_value_of_its_recipe_on_the_axis():
    runs = [RecipeRun("cerp", value=value) for value in (0.1, 1.0, 10.0)]
    missing = [MissingCell(run, None, "lightgcn", "99%", 0, "not run yet") for run in runs[::2]]
    found = [MeasuredCell(runs[1], None, result(search=searched()))]
    record = Record("made-up", "gowalla", DATA, found, missing)
    [section] = recipe_page(recipe("sensitivity", *runs, setting="gamma"), record).sections
    assert section.figure is not None
    texts = [entry.text for entry in section.figure.iter("text")]
    assert [text for text in texts if text in ("0.1", "1.0", "10.0")] == ["0.1", "1.0", "10.0"]
    assert [dot.findtext("title") for dot in section.figure.iter("path")] == ["seed: 1.0: 0.1000"]


def test_no_line_goes_past_a_value_that_was_not_measured():
    points = [("a", [0.1]), ("b", [0.1]), ("c", []), ("d", [0.1])]
    joined, alone = sensitivity("mlp", "gamma", points, {}).iter("polyline")
    # A quarter of 380 for each value, from 56 on.
    ends = [place.split(",")[0] for place in joined.get("points", "").split()]
    assert ends == ["103.5", "198.5"]
    assert alone.get("points", "").startswith("388.5,")


def test_a_heat_map_fills_the_entries_that_are_not_zero():
    [path] = heatmap("Ten", ["user 1", "item 2"], ["0110", "0001"]).iter("path")
    corners = [part.split("h")[0] for part in path.get("d", "").split("M")[1:]]
    assert corners == ["1,0.05", "2,0.05", "3,1.05"]


def test_a_pattern_is_where_the_vectors_of_ten_entities_are_not_zero(tmp_path: Path):
    model = small_model()
    write(tmp_path / "model.cerp", model, Encoding())
    found = pattern(tmp_path / "model.cerp")
    vectors = model.embedding.vectors(model.positions, 65)
    user = model.users.values.tolist().index(int(found["names"][0].removeprefix("user ")))
    assert len(found["names"]) == len(found["nonzero"]) == 10
    assert [bit == "1" for bit in found["nonzero"][0]] == (vectors[user] != 0).tolist()


# Records


def test_a_record_survives_its_file(tmp_path: Path):
    _, record = methods_record()
    record.write(tmp_path / "runs.json")
    assert Record.read(tmp_path / "runs.json") == record


def test_a_file_that_is_no_record_is_refused(tmp_path: Path):
    (tmp_path / "runs.json").write_text("[]")
    with pytest.raises(DataError, match="holds no record"):
        Record.read(tmp_path / "runs.json")


# The command

TINY = """
title = "A tiny table"
kind = "{kind}"
budgets = ["80%"]
backbones = ["mf"]
settings = {{dim = 8, train.epochs = 1, prune.epochs = 1, ordering = "degree"}}
[[run]]
method = "cerp"
variant = "default"
"""


class Paper:
    """`cerp paper` with recipes and data of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out" / "tiny"
        folder.mkdir(exist_ok=True)
        self.splits().save(folder / "tiny")
        (folder / "methods.toml").write_text(
            TINY.format(kind="methods") + '[[run]]\nmethod = "popularity"\n'
        )
        (folder / "maps.toml").write_text(TINY.format(kind="heatmap"))

    def splits(self, seed: int = 0) -> Splits:
        return synthetic(60, 40, 600).split(seed=seed)

    def run(self, name: str, *options: str) -> Outcome:
        places = ["--runs", f"{self.folder}/runs", "-o", f"{self.folder}/out", "--device", "cpu"]
        command = ["paper", f"{self.folder}/{name}.toml", "--data", f"{self.folder}/tiny"]
        return CliRunner().invoke(app, [*command, *places, *options], catch_exceptions=False)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return json.loads((self.out / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Paper:
    """After three calls: nothing in time, then popularity alone, then the rest."""
    made = Paper(tmp_path_factory.mktemp("paper"))
    first = made.run("methods", "--time-limit", "0")
    assert (first.exit_code, made.rows("methods")) == (0, [])
    assert "Missing: popularity (default), not run yet: seed 0." in first.stdout
    second = made.run("methods", "--methods", "popularity")
    assert [row["method"] for row in made.rows("methods")] == ["popularity"]
    assert "Missing: cerp (default, default), not run yet: mf 80% seed 0." in second.stdout
    assert made.run("methods").exit_code == 0
    return made


def test_calls_add_up_to_the_whole_table(paper: Paper):
    assert [row["method"] for row in paper.rows("methods")] == ["cerp", "popularity"]
    record = Record.read(paper.out / "methods-runs.json")
    assert (record.missing, record.data["fingerprint"]) == ([], paper.splits().fingerprint)
    cerp = record.found[0].result
    assert (cerp.config["dim"], cerp.device, cerp.nnz) == (8, "cpu", 160)
    assert "Missing" not in (paper.out / "methods.md").read_text()


def test_cerp_is_compared_with_every_other_by_paired_users(paper: Paper):
    [interval] = Record.read(paper.out / "methods-runs.json").intervals
    cerp, popularity = (row["ndcg10"] for row in paper.rows("methods"))
    assert (interval.against, interval.seeds) == ("popularity", (1, 1))
    assert interval.mean == pytest.approx(cerp - popularity)
    assert interval.low <= interval.mean <= interval.high


def test_intervals_follow_the_values_of_users_where_these_are_at_hand(paper: Paper, tmp_path: Path):
    other = Paper(tmp_path)
    shutil.copytree(paper.out, other.out)
    shutil.copytree(paper.folder / "runs", tmp_path / "runs")
    path = other.out / "methods-runs.json"
    record = Record.read(path)
    stale = [replace(interval, mean=0.5) for interval in record.intervals]
    replace(record, intervals=stale).write(path)
    [kept] = (other.out / "users").iterdir()
    there = kept.read_bytes()
    kept.write_bytes(b"of another run")
    other.run("methods")
    assert Record.read(path) == record
    assert kept.read_bytes() == there


def test_what_is_measured_later_elsewhere_is_compared_with_the_runs_of_then(
    paper: Paper, tmp_path: Path
):
    first, elsewhere = Paper(tmp_path / "first"), Paper(tmp_path / "elsewhere")
    first.run("methods", "--methods", "cerp")
    assert Record.read(first.out / "methods-runs.json").intervals == []
    shutil.copytree(first.out, elsewhere.out)
    elsewhere.run("methods")
    expected = Record.read(paper.out / "methods-runs.json").intervals
    assert Record.read(elsewhere.out / "methods-runs.json").intervals == expected
    assert [path.name[:5] for path in (elsewhere.out / "users").iterdir()] == ["cerp-"]


def test_a_recipe_finds_the_runs_of_another_and_looks_into_their_models(paper: Paper):
    outcome = paper.run("maps")
    assert "started" not in outcome.stderr
    [row] = paper.rows("maps")
    assert np.mean([bits.count("1") for bits in row["nonzero"]]) <= 8
    assert ElementTree.fromstring((paper.out / "maps-1.svg").read_text()).tag.endswith("svg")


def test_a_finished_table_outlives_the_folder_of_its_runs(paper: Paper, tmp_path: Path):
    other = Paper(tmp_path)
    shutil.copytree(paper.out, other.out)
    outcome = other.run("methods")
    assert "started" not in outcome.stderr
    for name in ("methods.json", "methods.md", "methods.html", "methods-runs.json"):
        assert (other.out / name).read_bytes() == (paper.out / name).read_bytes()


def test_results_of_a_run_that_has_changed_do_not_count(paper: Paper, tmp_path: Path):
    other = Paper(tmp_path)
    shutil.copytree(paper.out, other.out)
    changed = (tmp_path / "methods.toml").read_text().replace("dim = 8", "dim = 16")
    (tmp_path / "methods.toml").write_text(changed)
    outcome = other.run("methods", "--time-limit", "0")
    assert "left out: 1 earlier results of runs with other settings" in outcome.stderr
    assert [row["method"] for row in other.rows("methods")] == ["popularity"]


def test_a_budget_that_needs_other_settings_now_does_not_count(tmp_path: Path):
    splits = synthetic(60, 40, 600).split(seed=0)
    made = replace(recipe("methods", RecipeRun("ud")), budgets=("90%", "99%"))
    (one,) = plan(made, "lastfm")
    results = Results(tmp_path)
    results.add([result(one.job.method, budget=name) for name in made.budgets], "a test")
    without = replace(one, job=replace(one.job, budgets=("90%",)))
    record = new_record(made, "lastfm", splits, [without], results, {}, None)
    assert [entry.budget for entry in record.found] == ["90%"]


def test_runs_of_another_machine_are_merged(paper: Paper, tmp_path: Path):
    other = Paper(tmp_path)
    outcome = other.run("methods", "--merge", f"{paper.folder}/runs")
    assert "started" not in outcome.stderr
    assert other.rows("methods") == paper.rows("methods")


def test_other_data_is_refused(paper: Paper, tmp_path: Path):
    other = Paper(tmp_path)
    shutil.copytree(paper.out, other.out)
    shutil.rmtree(tmp_path / "tiny")
    other.splits(seed=1).save(tmp_path / "tiny")
    with pytest.raises(ConfigError, match="is of other data"):
        other.run("methods")


def test_the_page_needs_nothing_but_itself(paper: Paper):
    page = (paper.out / "methods.html").read_text()
    assert "<title>A tiny table (tiny)</title>" in page
    assert not any(word in page for word in ("src=", "url(", "http"))


def test_table_1_is_counted(paper: Paper):
    places = ["--data", f"{paper.folder}/tiny", "-o", f"{paper.folder}/out", "--device", "cpu"]
    outcome = CliRunner().invoke(app, ["paper", "table1", *places, "--json"])
    [row] = json.loads(outcome.stdout)["rows"]
    assert [row[key] for key in ("users", "items", "interactions")] == [60, 40, 600]
    assert row["density_pct"] == 25.0  # 600 / (60 * 40)


def test_gowalla_is_as_the_paper_counts_it(shared_data, tmp_path: Path):
    places = ["--data", str(shared_data("gowalla")), "-o", str(tmp_path), "--device", "cpu"]
    CliRunner().invoke(app, ["paper", "table1", *places])
    [row] = json.loads((tmp_path / "gowalla" / "table1.json").read_text())
    [printed] = published_rows("table1", dataset="gowalla")
    assert all(row[key] == printed[key] for key in ("users", "items", "interactions"))
    assert round(row["density_pct"], 3) == printed["density_pct"]


# The page of results


def test_docs_results_is_built_from_the_files_in_results():
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert page == summary(ROOT / "results"), "run: make results-page"


def test_the_tables_in_results_are_built_from_their_records(tmp_path: Path):
    for path in (ROOT / "results").glob(RECORDS):
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / path.parent.name)
    rebuild(tmp_path)
    for path in (*tmp_path.glob("*/*.md"), *tmp_path.glob("*/*.json")):
        kept = ROOT / "results" / path.relative_to(tmp_path)
        assert path.read_bytes() == kept.read_bytes(), f"{kept}: run make results-page"


def test_figures_of_users_in_results_are_those_of_the_row_that_others_are_compared_with():
    expected = set()
    for path in (ROOT / "results").glob(RECORDS):
        found = [one for one in Record.read(path).found if not one.result.is_older]
        run = compared_run(found)
        cells = [one.result.cell.name for one in found if one.run.row == run]
        expected |= {path.parent / "users" / f"{name}.npz" for name in cells}
    assert set((ROOT / "results").glob("*/users/*")) <= expected


def test_without_any_figures_everything_is_missing(tmp_path: Path):
    page = summary(tmp_path)
    assert page.count("| CERP         | missing | missing | missing |") == 2
    assert "is above the paper's CERP in 0 of 6 cells" in page
    assert "The figures of the opening are missing." in page
    assert "Ours are missing: `cerp paper leaderboard`" in page


def made_up_results(folder: Path) -> Path:
    """UD of two seeds at 99%, .05 and .07; CERP .02 on the MLP and .12 on LightGCN, refit .2."""
    cerp = {"method": "cerp", "preset": "default", "ordering": "spectral"}
    ud = {"method": "ud", "preset": "default", "ordering": None, "backbone": "lightgcn"}
    shared = {"dataset": "gowalla", "sparsity": 99, "accounting": "honest", "seed": 0}
    shared |= {"refit": None}
    table = [
        {**shared, **ud, "ndcg10": 0.05},
        {**shared, **ud, "ndcg10": 0.07, "seed": 1},
        {**shared, **cerp, "backbone": "mlp", "ndcg10": 0.02},
        {**shared, **cerp, "backbone": "lightgcn", "ndcg10": 0.12},
        {**shared, **cerp, "backbone": "lightgcn", "ndcg10": 0.2, "refit": "train+valid"},
    ]
    (folder / "gowalla").mkdir()
    (folder / "gowalla" / "table2.json").write_text(json.dumps(table))
    return folder


def test_findings_follow_from_the_figures(tmp_path: Path):
    found = "\n".join(findings(ResultsIndex(made_up_results(tmp_path))))
    # The paper's CERP at 99%: .0831 with LightGCN, .0298 with the MLP; its UD: .0416.
    assert "is above the paper's CERP in 1 of 6 cells" in found
    assert "| lightgcn, 99%    | 0.0831 |  0.1200 |" in found
    assert "| mlp, 99%         | 0.0298 |  0.0200 |" in found
    assert "### The paper's UD looks undertrained at 99%\n" in found
    assert "for them in 1 cells, and not in 0. Missing: esapn, mlp, 90%," in found
    assert "| 95%          | 0.0617 |         missing |" in found
    assert "| 99%          | 0.0416 | 0.0600 ± 0.0141 |" in found


def test_a_rival_below_what_the_paper_reports_is_named(tmp_path: Path):
    folder = made_up_results(tmp_path)
    path = folder / "gowalla" / "table2.json"
    rows = [row | {"ndcg10": row["ndcg10"] / 2} for row in json.loads(path.read_text())]
    path.write_text(json.dumps(rows))
    found = "\n".join(findings(ResultsIndex(folder)))
    assert "for them in 0 cells, and not in 1." in found
    assert "| ud, lightgcn, 99% | 0.0416 | 0.0300 ± 0.0071 |" in found


def test_older_rows_are_marked_and_the_page_says_what_that_means(tmp_path: Path):
    folder = made_up_results(tmp_path)
    assert OLDER not in summary(folder)
    path = folder / "gowalla" / "table2.json"
    rows = [
        row | {"judging": 1 + (row["method"] == "cerp")} for row in json.loads(path.read_text())
    ]
    path.write_text(json.dumps(rows))
    page = summary(folder)
    assert "0.0600 ± 0.0141° |" in page
    assert "0.1200 |" in page
    assert "° marks rows that were judged before" in page


def test_the_opening_is_told_in_figures_of_the_results(tmp_path: Path):
    folder = made_up_results(tmp_path) / "gowalla"
    table = json.loads((folder / "table2.json").read_text())
    popular = {**table[0], "method": "popularity", "backbone": None, "sparsity": 100.0}
    (folder / "table2.json").write_text(json.dumps([*table, popular | {"ndcg10": 0.03}]))
    (folder / "table1.json").write_text(json.dumps([{"users": 2000, "items": 30}]))
    sizes = {"full lightgcn": (40e6, 0.2), "cerp-learned lightgcn": (2e6, 0.15), "svd": (4e5, 0.1)}
    points = [
        {"method": name, "file_bytes": size, "ndcg10": score, "valid_ndcg10": score, "seed": 0}
        for name, (size, score) in sizes.items()
    ]
    (folder / "frontier.json").write_text(json.dumps(points))
    told, picture, _ = opening(ResultsIndex(tmp_path))
    assert told.startswith("Gowalla has 2,000 people and 30 places. ")
    assert "takes 40.0 MB and reaches an NDCG@10 of 0.2000" in told
    assert "for everybody have 0.0300" in told
    assert "0.1500, 75% of the full size, in a file of 2.0 MB" in told
    assert "0.1000 in 0.4 MB" in told
    assert picture.endswith("(frontier.svg)")


def test_gowallas_tables_have_methods_without_vectors_beside_every_backbone(tmp_path: Path):
    folder = made_up_results(tmp_path)
    table = json.loads((folder / "gowalla/table2.json").read_text())
    plain = table[0] | {"backbone": None, "preset": "default"}
    table += [
        plain | {"method": "svd", "sparsity": 99, "ndcg10": 0.03},
        plain | {"method": "svd", "sparsity": 95, "ndcg10": 0.04},
        plain | {"method": "filter", "sparsity": 100.0, "ndcg10": 0.13},
    ]
    (folder / "gowalla/table2.json").write_text(json.dumps(table))
    page = summary(folder).replace(" ", "")
    assert page.count("|graphfilter|0.1300|0.1300|0.1300|") == 2  # with LightGCN and the MLP
    assert page.count("|scaledSVD|missing|0.0400|0.0300|") == 2


def test_methods_at_equal_bytes_stand_by_their_score_with_a_graph(tmp_path: Path):
    def row(method: str, backbone: str | None, ndcg10: float, **more: object) -> dict[str, object]:
        known = {"accounting": "honest", "refit": None, "judging": JUDGING}
        return {"method": method, "backbone": backbone, "ndcg10": ndcg10, **known, **more}

    own = {"preset": "default", "ordering": "spectral"}
    made = [
        row("cerp", "mlp", 0.2, **own),
        *(row("cerp", "lightgcn", x, **own) for x in (0.1, 0.3)),
    ]
    made += [row("svd", None, 0.25), row("ud", "lightgcn", 0.2, judging=1)]
    (tmp_path / "gowalla").mkdir()
    (tmp_path / "gowalla/table2-bytes.json").write_text(json.dumps(made))
    title, told, table = bytes_parts(ResultsIndex(tmp_path))
    assert title == "## Gowalla, 400KB of embedding"
    assert [line.split("|")[1:4] for line in table.replace(" ", "").splitlines()[2:]] == [
        ["scaledSVD", "0.2500", "0.2500"],
        ["CERP", "0.2000±0.1414", "0.2000"],
        ["UD", "0.2000°", "-"],
    ]
    assert "Not measured yet: CERP, learned rows; CERP, shuffled ids; QR, shuffled ids;" in told
    assert "DHE" not in told  # which the recipe does not ask for


def test_refits_stand_beside_the_public_leaderboards(tmp_path: Path):
    rows = [
        {"method": "full", "sparsity": 0.0, "recall20": 0.18, "ndcg20": 0.15},
        {"method": "full", "sparsity": 0.0, "recall20": 0.20, "ndcg20": 0.17},
        {"method": "ud", "sparsity": 99, "recall20": 0.1, "ndcg20": 0.05},
    ]
    (tmp_path / "gowalla").mkdir()
    (tmp_path / "gowalla" / "leaderboard.json").write_text(json.dumps(rows))
    *_, table = leaderboard_parts(ResultsIndex(tmp_path))
    assert "| LightGCN (BARS) |    0.1820 |  0.1547 |     - |" in table
    assert "| full size       |    0.1900 |  0.1600 |     2 |" in table
    assert "| UD, 99%         |    0.1000 |  0.0500 |     1 |" in table


def test_settings_outside_the_papers_grids_are_listed(tmp_path: Path):
    def of(method: str, **train: Any) -> MeasuredCell:
        config = {"train": TrainConfig(**train).__dict__}
        return MeasuredCell(RecipeRun(method), None, result(f"{method}-a", config=config))

    found = [
        of("ud", learning_rate=1e-2, weight_decay=1e-7),
        of("pep", learning_rate=3e-3, weight_decay=0.0),
        of("full", optimizer="adamw", weight_decay=0.04, learning_rate=1e-3, schedule="cosine"),
    ]
    (tmp_path / "gowalla").mkdir()
    Record("table2", "gowalla", DATA, found).write(tmp_path / "gowalla" / "table2-runs.json")
    *_, table = outside_parts(ResultsIndex(tmp_path))
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == ["pep", "full"]
    assert "rate 0.003, no decay" in table
    assert "adamw, decay 0.04, cosine over 60 epochs" in table


def test_a_row_tells_how_often_its_test_part_was_seen(tmp_path: Path):
    run = RecipeRun("ud")
    earlier = [
        MeasuredCell(run, None, result("ud-old"), test_readings=2),
        MeasuredCell(run, None, result("ud-old", seed=1), test_readings=1),
        MeasuredCell(run, None, result("ud-known", seed=2), test_readings=None),
        MeasuredCell(RecipeRun("qr"), None, result("qr-old"), test_readings=5),  # another row
    ]
    record = Record("made-up", "gowalla", DATA, earlier)
    asked = RecipeRun("ud", seeds=3)  # as many seeds as may be: it is the same row
    changed = [readings_of_test(asked, result("ud-new", seed=seed), record) for seed in (0, 1, 3)]
    assert changed == [3, 2, 1]
    assert readings_of_test(asked, result("ud-known", seed=2), record) is None
    assert readings_of_test(asked, result("ud-new"), None) == 1
    again = result("ud-old", ndcg10=0.11)  # the same settings, trained anew
    assert readings_of_test(asked, again, record) == 3
    trained = RecipeRun("ud", settings={"train": {"epochs": 9}})
    assert readings_of_test(trained, result("ud-longer"), record) == 3
    shuffled = RecipeRun("ud", settings={"ordering": "shuffled"})
    assert readings_of_test(shuffled, result("ud-shuffled"), record) == 1
    record.write(tmp_path / "record.json")
    assert Record.read(tmp_path / "record.json") == record


def test_results_of_other_conventions_are_shown_until_their_row_is_measured_again(tmp_path: Path):
    splits = synthetic(60, 40, 600).split(seed=0)
    asked = recipe("methods", RecipeRun("cerp"), RecipeRun("ud"))
    planned = plan(asked, "synthetic")
    names = {one.run.method: one.job.method for one in planned}
    shared = {"fingerprint": splits.learning_fingerprint, "config": planned[0].job.config.to_dict()}

    def of(method: str, seed: int, judging: int | None) -> MeasuredCell:
        config = next(one for one in planned if one.run.method == method).job.config.to_dict()
        values = {**shared, "config": config, "judging": judging}
        return MeasuredCell(RecipeRun(method, seeds=3), None, result(names[method], seed, **values))

    older = [of("cerp", 0, None), of("cerp", 1, None), of("ud", 0, None)]
    earlier = Record("made-up", "synthetic", DATA, [*older, of("ud", 10, JUDGING)])
    results = Results(tmp_path)
    assert take_over(earlier, planned, results) == 3
    assert [one.cell for one in results.all] == [of("ud", 10, JUDGING).result.cell]
    record = new_record(asked, "synthetic", splits, planned, results, {}, earlier)
    # Of UD today's alone; of CERP, which has none of today's, the older ones.
    assert [(one.run.method, one.result.seed) for one in record.found] == [
        ("ud", 10),
        ("cerp", 0),
        ("cerp", 1),
    ]
    assert record.intervals == []
    by_name = {line.run.method: line for line in lines(asked, record, "lightgcn", "99%")}
    assert (by_name["cerp"].seeds, by_name["cerp"].is_older) == ("2 older", True)
    assert (by_name["ud"].seeds, by_name["ud"].is_older) == ("1 of 2", False)
    assert [row["judging"] for row in rows(asked, record)] == [JUDGING, 1, 1]
    again = readings_of_test(RecipeRun("cerp"), of("cerp", 0, JUDGING).result, earlier)
    assert again == 2, "judged by other conventions, the test part was read once more"


def test_a_best_epoch_that_is_the_last_is_marked():
    run = RecipeRun("ud")
    made = [result(best_epoch=epoch, config={"train": {"epochs": 9}}) for epoch in (5, 9)]
    assert [one.ends_at_its_last_epoch for one in made] == [False, True]
    shown = [Line(run, [MeasuredCell(run, None, one)], []).best_epoch() for one in made]
    assert shown == ["5", "9 (last)"]


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("qr", "QR"),  # shuffled and spectral
        ("cerp", "CERP"),
        ("cerp-learned", "CERP, learned rows"),
        ("svd", "scaled SVD"),
        ("full", "full size"),
        ("als", "als"),
    ],
)
def test_the_page_has_a_name_for_each_method(method: str, name: str):
    assert shown_name(method) == name


def test_the_page_counts_what_holds_and_names_the_rest(tmp_path: Path):
    cerp = RecipeRun("cerp", seeds=3)
    found = [
        MeasuredCell(cerp, None, result(backbone="mlp", seed=seed, ndcg10=0.1 + 0.001 * seed))
        for seed in range(3)
    ]
    found += [
        MeasuredCell(
            RecipeRun("ud"), None, result("ud-default-a", backbone="mlp", seed=seed, ndcg10=score)
        )
        for seed, score in enumerate((0.05, 0.051, 0.052))
    ]

    def interval(against: str, mean: float, p: float | None, seeds: int = 3) -> Interval:
        return Interval(against, "mlp", "99%", (3, seeds), mean, mean - 0.01, mean + 0.01, p)

    intervals = [
        interval("ud-default-a", 0.05, 0.0002),
        interval("qr-default-b", 0.01, 0.04),  # not after Holm's correction: twice .03 is .06
        interval("pep-default-c", -0.01, 0.03),
        interval("hash-default-d", 0.05, 0.0002, seeds=1),
        interval("dhe-default-e", 0.05, None),
        interval("cce-default-g", -0.05, 0.0002),
        interval("magnitude-best-default-i", -0.05, 0.0002),
        interval("cerp-learned-default-h", -0.05, 0.0002),  # CERP, too
        interval("full-default-f", -0.05, 0.0002),  # no rival, but one of the table
    ]
    record = Record("table2", "gowalla", DATA, found, [], intervals)
    (tmp_path / "gowalla").mkdir()
    record.write(tmp_path / "gowalla" / "table2-runs.json")
    *_, table, _, told = standing_parts(ResultsIndex(tmp_path))
    lines = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in table.splitlines()}
    header = [cell.strip() for cell in lines[""]]
    at_99 = dict(zip(header, (cell.strip() for cell in lines["gowalla, mlp, 99%"]), strict=True))
    counts = {"better": "1", "worse": "2", "not clear": "2", "too few seeds": "1"}
    assert at_99 == {"rivals": "7", **counts, "users only": "1", "t-test": "1 of 1"}
    assert {cell.strip() for cell in lines["lastfm, lightgcn, 99%"]} == {"-"}
    assert told == "- gowalla, mlp, 99%: CCE; magnitude, best table"


def test_what_a_larger_gamma_does_is_told_beside_the_ablation(tmp_path: Path):
    shared = {"backbone": "lightgcn", "sparsity": 99, "preset": "paper", "seed": 0}
    figures = {"avg_dim": 18.0, "overlap_pct": 0.5, "ndcg10": 0.09, "stalls_at": None}
    ablation = [{**shared, **figures, "variant": name} for name in ("default", "no_penalty")]
    ablation += [{**shared, **figures, "variant": "no_gamma_decay", "avg_dim": 18.5}]
    denser = {"avg_dim": 19.0, "overlap_pct": 0.25}
    by_gamma = [
        {**shared, **figures, "value": 0.1, **denser},
        {**shared, **figures, "value": 0.001},
        {**shared, **figures, "value": 1.0, "backbone": "mlp"},
    ]
    by_gamma = [{**row, "setting": "prune.gamma"} for row in by_gamma]
    (tmp_path / "gowalla").mkdir()
    for name, table in (("table3", ablation), ("fig-gamma", by_gamma)):
        (tmp_path / "gowalla" / f"{name}.json").write_text(json.dumps(table))
    found = "\n".join(findings(ResultsIndex(tmp_path)))
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found.splitlines()]
    assert ["gamma halved after every epoch", "in 0 of 1 cells", "in 0 of 1"] in lines
    assert ["gamma keeps its first value", "in 1 of 1 cells", "in 0 of 1"] in lines
    assert ["lightgcn, no penalty", "18.00", "0.50%", "0.0900"] in lines
    assert ["lightgcn, 0.1", "19.00", "0.25%", "0.0900"] in lines
    assert not any(line and line[0].startswith("mlp, 1") for line in lines), "nothing beside it"


@pytest.mark.parametrize(("epochs", "is_over"), [(3, False), (10, True)])
def test_a_penalty_that_was_over_before_pruning_is_told(
    tmp_path: Path, epochs: int, *, is_over: bool
):
    shared = {"backbone": "lightgcn", "sparsity": 90, "preset": "paper", "seed": 0}
    figures = {"avg_dim": 18.0, "overlap_pct": 0.5, "ndcg10": 0.09, "stalls_at": None}
    ablation = [
        {**shared, **figures, "pruning_epochs": epochs, "variant": name}
        for name in ("default", "no_penalty")
    ]
    (tmp_path / "gowalla").mkdir()
    (tmp_path / "gowalla" / "table3.json").write_text(json.dumps(ablation))
    found = "\n".join(findings(ResultsIndex(tmp_path)))
    left = {3: "0.12", 10: "0.00098"}[epochs]  # 1/8 and 1/1024
    assert f"met 90% in epoch {epochs}.0, when gamma was at {left} of its start." in found
    assert ("compare nothing with nothing" in found) == is_over


def test_a_method_that_aims_at_one_budget_lacks_nothing_at_the_others(tmp_path: Path):
    folder = made_up_results(tmp_path)
    path = folder / "gowalla" / "table2.json"
    ud = json.loads(path.read_text())[0]
    path.write_text(json.dumps([{**ud, "method": "optembed", "sparsity": 90}]))
    assert "| OptEmbed     | 0.0500 |      - |      - |" in summary(folder)


def test_what_was_tried_and_refused_is_not_called_missing(tmp_path: Path):
    for dataset, why in (("ml-1m", "the budget is too small"), ("lastfm", "not run yet")):
        cell = MissingCell(RecipeRun("qr"), "shuffled", "lightgcn", "99%", 0, why)
        (tmp_path / dataset).mkdir()
        record = Record("other-data", dataset, DATA, missing=[cell])
        record.write(tmp_path / dataset / "other-data-runs.json")
    page = summary(tmp_path)
    assert "| QR, shuffled ids | not possible | missing |       missing |" in page
    assert "[complete; 1 not possible](../results/ml-1m/other-data.md)" in page
    assert "[0 of 1 cells](../results/lastfm/other-data.md)" in page


def test_why_a_cell_could_not_be_run_is_told_until_it_is_tried_again(tmp_path: Path):
    made, splits = recipe("methods", RecipeRun("ud", seeds=2)), synthetic(60, 40, 600).split(seed=0)
    planned = plan(made, "tiny")
    told = MissingCell(RecipeRun("ud"), None, "lightgcn", "99%", 0, "the budget is too small")
    earlier = Record(made.name, "tiny", DATA, missing=[told])

    def reasons(failed: dict[str, str]) -> list[str]:
        record = new_record(made, "tiny", splits, planned, Results(tmp_path), failed, earlier)
        return [cell.why for cell in record.missing]

    assert reasons({}) == ["the budget is too small", "not run yet"]
    assert reasons({planned[0].job.name: "no memory"}) == ["no memory", "not run yet"]


def test_what_a_search_would_gain_at_full_size_is_told_beside_its_preset(tmp_path: Path):
    told = "makes it better on validation"
    assert told not in summary(tmp_path)
    trials = [{"valid_ndcg@10": score} for score in (0.2, 0.21, 0.25, 0.1)]
    (tmp_path / "lastfm").mkdir()
    (tmp_path / "lastfm" / "full_size.json").write_text(json.dumps({"trials": trials}))
    assert f"{told}: 25.0% on lastfm." in summary(tmp_path)

    # Where recipes use what a search found, nothing would be gained.
    search = {"trials": 4, "epochs": 15, "best": {"lightgcn": {"full": {}, "ud": {}}}}
    (tmp_path / "lastfm" / "search.json").write_text(json.dumps(search))
    page = summary(tmp_path)
    assert told not in page
    assert "On lastfm the settings of 2 methods were searched on validation, 4 trials" in page


def test_stalls_of_several_seeds_are_one_mean(tmp_path: Path):
    row = {"variant": "default", "backbone": "mlp", "sparsity": 99, "preset": "paper"}
    rows = [{**row, "seed": seed, "stalls_at": 94.0 + 2 * seed} for seed in range(2)]
    (tmp_path / "gowalla").mkdir()
    (tmp_path / "gowalla" / "table3.json").write_text(json.dumps(rows))
    assert "| default, mlp, 99% |    95.00% |" in "\n".join(findings(ResultsIndex(tmp_path)))


def test_sensitivities_are_told_by_value_with_the_spread_of_seeds(tmp_path: Path):
    values = [(4000, 0.03, "mlp"), (4000, 0.05, "mlp"), (5000, 0.06, "mlp")]
    rows = [
        {"setting": "buckets", "value": value, "ndcg10": score, "backbone": name}
        for value, score, name in values
    ]
    (tmp_path / "gowalla").mkdir()
    (tmp_path / "gowalla" / "fig-buckets.json").write_text(json.dumps(rows))
    found = "\n".join(findings(ResultsIndex(tmp_path)))
    # Two scores that lie .02 apart deviate by .02/√2 = .0141.
    assert "| 4000    |  missing | 0.0400 ± 0.0141 |" in found
    assert "| 5000    |  missing |          0.0600 |" in found
    assert "The paper: LightGCN is more sensitive to gamma than the MLP. Here: missing." in found
