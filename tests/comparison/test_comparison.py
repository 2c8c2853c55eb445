from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cerp.cli import app
from cerp.comparison import running, worker
from cerp.comparison.display import Lines, live_table
from cerp.comparison.jobs import Cell, Job, plan
from cerp.comparison.results import Result, Results, write_user_values
from cerp.comparison.running import missing, run
from cerp.comparison.statistics import spread
from cerp.comparison.tables import HEADER, comparison_page
from cerp.comparison.tuned import read_tuned
from cerp.comparison.variants import POPULARITY, chosen_names, config_of, variants
from cerp.comparison.worker import JobFolder, work
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BusyError, ConfigError, DataError
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.evaluate import evaluate
from cerp.evaluation.metrics import Metrics
from cerp.locks import claimed
from cerp.methods import METHODS
from cerp.pages.tables import TablePage, to_html, to_markdown
from cerp.presets import preset
from cerp.runs.fit import fit_all

TINY = {"dim": 8, "train": {"epochs": 1}, "prune": {"epochs": 1}, "ordering": "degree"}


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(60, 40, 600).split(seed=0)


# What is compared


def test_seeds_of_a_comparison_are_so_far_apart_that_no_stages_share_batches():
    jobs = plan(["cerp"], ["mf"], ["90%"], 3)
    assert [job.seed for job in jobs] == [0, 10, 20]
    # A run draws from its seed and the three after it.
    drawn = [job.config.seed + stage for job in jobs for stage in range(4)]
    assert len(set(drawn)) == len(drawn)


def test_every_method_of_the_registry_can_be_compared_under_its_name():
    assert all(variants()[name].method == name for name in METHODS.names())
    assert set(chosen_names(["all"])) >= {POPULARITY, *METHODS.names()}


def test_rows_of_codebooks_are_chosen_by_variants_with_a_name_and_nothing_is_trained_twice():
    assert config_of("cerp-hash", "mf").assignment == "hash"
    assert config_of("cerp-learned", "mf").assignment == "learned"
    assert config_of("cerp", "mf") == preset("default", "mf", "cerp")
    # One of the two is what the preset does anyway.
    left_out = {*variants()} - {*chosen_names(["all"])}
    assert left_out == {f"cerp-{config_of('cerp', 'mf').assignment}"}
    assert chosen_names(["cerp,cerp-hash"]) == ["cerp", "cerp-hash"]


def test_names_come_by_commas_and_repetition_each_once():
    assert chosen_names(["ud, cerp", "ud", "popularity"]) == ["ud", "cerp", "popularity"]
    with pytest.raises(ConfigError, match="unknown method 'udd'; choose among all, popularity"):
        chosen_names(["udd"])


def test_raw_ids_are_in_no_variant():
    assert "native" not in {config_of(name, "mf").ordering for name in variants()}
    assert config_of("qr", "mf").ordering == "shuffled"
    assert config_of("qr-spectral", "mf").ordering == "spectral"


def test_settings_go_over_the_variant_and_the_later_ones_win():
    config = config_of("cerp-shuffled", "mf", {"train": {"epochs": 3}}, {"train": {"epochs": 4}})
    assert (config.ordering, config.train.epochs, config.train.negatives) == ("shuffled", 4, 5)
    with pytest.raises(ConfigError, match=r"config\.train has no entry 'epoch'"):
        config_of("ud", "mf", {"train": {"epoch": 3}})


def test_a_grid_is_one_job_for_each_method_backbone_and_seed():
    jobs = plan(["popularity", "full", "cerp"], ["mf", "mlp"], ["90%", "99%"], 2)
    assert len(jobs) == 1 + 2 * 2 * 2
    assert [job.name for job in jobs[:3]] == ["popularity.seed0", "full.mf.seed0", "cerp.mf.seed0"]
    assert [job.budgets for job in jobs[:3]] == [(None,), ("full",), ("90%", "99%")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["ud"], ["mf"], ["100%"], 1), "the pruned share must be above 0%"),
        ((["ud"], ["ncf"], ["99%"], 1), "unknown backbone 'ncf'"),
        ((["ud"], ["mf"], ["99%"], 0), "at least 1 seed, got 0"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(arguments, message: str):
    with pytest.raises(ConfigError, match=message):
        plan(*arguments)


def test_a_job_survives_json():
    (job,) = plan(["cerp"], ["mf"], ["90%"], 1, settings=TINY)
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job


def test_settings_of_a_search_reach_their_method_and_backbone_alone(tmp_path: Path):
    path = tmp_path / "best.json"
    path.write_text('{"method": "ud", "backbone": "mf", "settings": {"train": {"epochs": 7}}}')
    found = read_tuned(path)
    jobs = plan(["ud"], ["mf", "mlp"], ["90%"], 1, tuned={("ud", "mf"): found.settings})
    assert [(job.is_tuned, job.config.train.epochs) for job in jobs] == [(True, 7), (False, 60)]
    path.write_text("{}")
    with pytest.raises(ConfigError, match=r"holds no settings .* cerp.tune wrote"):
        read_tuned(path)


# What a worker does


def done(job: Job, splits: Splits, folder: Path) -> dict[str | None, Result]:
    place = JobFolder.of(folder, job)
    return {result.budget: result for result in work(job, splits, place, "cpu")}


def test_popularity_is_judged_without_training(splits: Splits, tmp_path: Path):
    (job,) = plan(["popularity"], ["mf"], ["90%"], 3)
    found = done(job, splits, tmp_path)[None]
    expected = evaluate(Popularity(splits.train), splits, on="test")
    assert found.ndcg10 == expected.mean["ndcg@10"]
    kept = Results(tmp_path).user_values(found.cell)
    np.testing.assert_array_equal(kept.per_user["recall@10"], expected.per_user["recall@10"])


def test_a_refit_is_judged_on_test_alone(splits: Splits, tmp_path: Path):
    (job,) = plan(["ud"], ["mf"], ["75%"], 1, settings={**TINY, "refit": "train+valid"})
    found = done(job, splits, tmp_path)["75%"]
    assert found.ndcg10 is not None
    assert found.valid_ndcg10 is None


def test_cells_have_their_counts_and_a_refused_budget_its_reason(splits: Splits, tmp_path: Path):
    (job,) = plan(["ud"], ["mf"], ["75%", "99%"], 1, settings=TINY)
    found = done(job, splits, tmp_path)
    # 100 entities of dimension 8: at 75% every entity keeps 2 of 8 values.
    assert (found["75%"].nnz, found["75%"].sparsity, found["75%"].avg_dim) == (200, 0.75, 2.0)
    assert found["99%"].error is not None
    assert "the smallest possible budget is 100" in found["99%"].error
    kept = Results(tmp_path).user_values(found["75%"].cell)
    assert kept.per_user["ndcg@10"].mean() == pytest.approx(found["75%"].ndcg10, abs=1e-12)


def test_a_cell_does_not_depend_on_the_budgets_beside_it(splits: Splits, tmp_path: Path):
    (alone,) = plan(["cerp"], ["mf"], ["90%"], 1, settings=TINY)
    (beside,) = plan(["cerp"], ["mf"], ["50%", "90%"], 1, settings=TINY)
    first, second = (
        done(job, splits, tmp_path / name)["90%"] for job, name in ((alone, "a"), (beside, "b"))
    )
    assert replace(first, seconds=None) == replace(second, seconds=None)


def test_a_refused_budget_does_not_take_the_others_with_it(splits: Splits, tmp_path: Path):
    # 800 is the full table.
    (job,) = plan(["cerp-hash"], ["mf"], ["75%", "1000"], 1, settings=TINY)
    found = done(job, splits, tmp_path)
    assert (found["75%"].error, found["75%"].nnz) == (None, 200)
    assert "it must allow from 2" in (found["1000"].error or "")


def test_an_error_that_may_pass_is_no_result(splits: Splits, tmp_path: Path):
    (job,) = plan(["ud"], ["mf"], ["75%"], 1, settings=TINY)
    with (
        claimed(JobFolder.of(tmp_path, job).run("75%"), ()),
        pytest.raises(BusyError, match="another process is at work"),
    ):
        done(job, splits, tmp_path)
    assert done(job, splits, tmp_path)["75%"].error is None


def test_a_wrong_setting_is_no_result(splits: Splits, tmp_path: Path):
    wrong = {**TINY, "method_options": {"of": "no such thing"}}
    (job,) = plan(["magnitude"], ["mf"], ["75%"], 1, settings=wrong)
    with pytest.raises(ConfigError, match="choose table or codebooks"):
        done(job, splits, tmp_path)


def test_an_interrupted_job_goes_on_with_the_run_it_was_in(
    splits: Splits, tmp_path: Path, monkeypatch
):
    (job,) = plan(["ud"], ["mf"], ["50%", "75%"], 1, settings=TINY)
    undisturbed = done(job, splits, tmp_path / "undisturbed")
    trained = []

    def interrupted(splits, config, options):
        trained.append(config.budgets)
        if trained == [("50%",), ("75%",)]:
            raise KeyboardInterrupt
        return fit_all(splits, config, options)

    monkeypatch.setattr(worker, "fit_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        done(job, splits, tmp_path)
    resumed = done(job, splits, tmp_path)
    for budget, result in undisturbed.items():
        assert replace(resumed[budget], seconds=None) == replace(result, seconds=None)


# How jobs are run


class Record:
    """A display that remembers, and may press Ctrl-C at the first result."""

    def __init__(self, *, interrupts: bool = False) -> None:
        self.names: list[str] = []
        self.interrupts = interrupts

    def started(self, job: Job) -> None:
        self.names.append(job.name)

    def ended(self, name: str, failure: str | None) -> None:
        pass

    def show(self, results: Results, running: dict[str, str]) -> None:
        if self.interrupts and results.all:
            raise KeyboardInterrupt


@pytest.fixture
def folder(tmp_path: Path, splits: Splits, monkeypatch) -> Path:
    """Of a comparison whose workers train nothing."""
    stand_in = [sys.executable, str(Path(__file__).with_name("comparison_worker.py"))]
    monkeypatch.setattr(running, "WORKER", stand_in)
    monkeypatch.setattr(running, "LOOK_EVERY_SECONDS", 0.01)
    (tmp_path / "fingerprint").write_text(splits.fingerprint)
    return tmp_path


def test_a_failed_job_leaves_the_others_alone_and_says_why(folder: Path, splits: Splits):
    jobs = plan(["pep", "hash", "ud"], ["mf"], ["90%"], 1)
    results = Results(folder)
    failed = run(jobs, splits, results, Record(), processes=3)
    assert failed["pep.mf.seed0"] == "the loss is not finite"
    assert failed["hash.mf.seed0"].startswith("killed by signal 9")
    assert [result.cell for result in Results(folder).all] == [Cell("ud", "mf", "90%", 0)]


def test_only_what_is_missing_is_run(folder: Path, splits: Splits):
    run(plan(["ud"], ["mf"], ["90%"], 1), splits, Results(folder), Record())
    wider = plan(["ud", "qr"], ["mf"], ["90%", "95%"], 1)
    assert [job.budgets for job in missing(wider, Results(folder))] == [("95%",), ("90%", "95%")]
    run(wider, splits, Results(folder), Record())
    assert len(Results(folder).all) == 4
    nothing_left = Record()
    run(wider, splits, Results(folder), nothing_left)
    assert nothing_left.names == []


def test_an_interruption_keeps_what_is_done_and_lets_the_others_stop(folder: Path, splits: Splits):
    jobs = plan(["dhe", "ud", "qr"], ["mf"], ["90%"], 1)
    with pytest.raises(KeyboardInterrupt):
        run(jobs, splits, Results(folder), Record(interrupts=True), processes=2)
    assert (folder / "jobs" / "dhe.mf.seed0" / "stopped").exists()
    assert [result.method for result in Results(folder).all] == ["ud"]
    rest = Record()
    run(jobs[1:], splits, Results(folder), rest)
    assert rest.names == ["qr.mf.seed0"]


def test_other_data_or_settings_are_refused_before_anything_runs(folder: Path, splits: Splits):
    jobs = plan(["ud"], ["mf"], ["90%"], 1)
    run(jobs, splits, Results(folder), Record())
    other = synthetic(60, 40, 600, seed=1).split(seed=0)
    with pytest.raises(ConfigError, match="holds results of other data"):
        run(jobs, other, Results(folder), Record())
    changed = plan(["ud"], ["mf"], ["95%"], 1, settings={"dim": 16})
    with pytest.raises(ConfigError, match="differ in dim: 16 against 128"):
        run(changed, splits, Results(folder), Record())


def test_a_job_that_was_begun_with_other_settings_is_refused(folder: Path, splits: Splits):
    run(plan(["pep"], ["mf"], ["90%"], 1), splits, Results(folder), Record())
    changed = plan(["pep"], ["mf"], ["90%"], 1, settings={"dim": 16})
    with pytest.raises(ConfigError, match="holds a job with other settings; they differ in dim"):
        run(changed, splits, Results(folder), Record())


# Results and their merging


def made_up(
    folder: Path,
    method: str,
    scores: list[float] | np.ndarray,
    *,
    seed: int = 0,
    budget: str | None = "90%",
    **more: object,
) -> Result:
    """A result whose users have these NDCG@10 and half of them as Recall@10."""
    values = np.asarray(scores, dtype=np.float64)
    facts: dict[str, Any] = {
        "config": {"dim": 8, "seed": seed},
        "fingerprint": "f" * 64,
        "version": "1",
    }
    facts |= {"device": "cpu", "ndcg10": float(values.mean()), "recall10": values.mean() / 2}
    facts |= {"ndcg20": 0.3, "tail_ndcg10": 0.01, "best_epoch": 7}
    result = Result(method, budget and "mf", budget, seed, **{**facts, **more})
    per_user = {"ndcg@10": values, "recall@10": values / 2}
    users = np.arange(len(values), dtype=np.int32)
    write_user_values(folder, result.cell, Metrics("test", users, per_user, {}, {}, {}))
    return result


def test_results_come_back_from_their_file(tmp_path: Path):
    result = made_up(tmp_path, "ud", [0.1, 0.2], nnz=3)
    Results(tmp_path).add([result])
    assert Results(tmp_path).all == [result]
    np.testing.assert_array_equal(
        Results(tmp_path).user_values(result.cell).per_user["ndcg@10"], [0.1, 0.2]
    )


def test_folders_merge_with_their_user_values(tmp_path: Path):
    first, second = Results(tmp_path / "first"), Results(tmp_path / "second")
    for place, method in ((first, "ud"), (second, "qr")):
        place.add([made_up(place.folder, method, [0.5])])
    second.add([made_up(second.folder, "ud", [0.7])])
    first.merge(second)
    assert [(one.method, one.ndcg10) for one in first.all] == [("ud", 0.5), ("qr", 0.5)]
    assert first.user_values(Cell("qr", "mf", "90%", 0)).per_user["ndcg@10"] == [0.5]


@pytest.mark.parametrize(
    ("difference", "message"),
    [
        ({"fingerprint": "0" * 64}, "holds results of other data"),
        ({"config": {"dim": 16}}, r"ud \(mf\) with other settings .*; they differ in dim: 16"),
    ],
)
def test_folders_of_other_data_or_settings_do_not_merge(tmp_path: Path, difference, message: str):
    mine, other = Results(tmp_path / "mine"), Results(tmp_path / "other")
    mine.add([made_up(mine.folder, "ud", [0.5])])
    other.add([made_up(other.folder, "ud", [0.5], seed=1, **difference)])
    with pytest.raises(ConfigError, match=message):
        mine.merge(other)


def test_results_of_another_number_of_threads_do_not_merge(tmp_path: Path):
    mine, other = Results(tmp_path / "mine"), Results(tmp_path / "other")
    mine.add([made_up(mine.folder, "popularity", [0.5])])
    mine.add([made_up(mine.folder, "ud", [0.5], threads=1)])
    other.add([made_up(other.folder, "qr", [0.5], threads=2)])
    with pytest.raises(ConfigError, match=r"results of 1 threads, .*other those of 2, .*OMP_NUM"):
        mine.merge(other)
    gpu = Results(tmp_path / "gpu")
    gpu.add([made_up(gpu.folder, "qr", [0.5], threads=2, device="H200")])
    mine.merge(gpu)
    assert [one.threads for one in mine.all] == [None, 1, 2]


def test_a_comparison_goes_on_with_the_threads_it_began_with(
    folder: Path, splits: Splits, monkeypatch
):
    def threads(method: str, processes: int) -> int:
        run(
            plan([method], ["mf"], ["90%"], 1),
            splits,
            Results(folder),
            Record(),
            processes=processes,
        )
        described = folder / "jobs" / f"{method}.mf.seed0" / "job.json"
        return json.loads(described.read_text())["threads"]

    monkeypatch.setenv("OMP_NUM_THREADS", "")
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert threads("ud", 2) == 4
    [first] = Results(folder).all
    path = folder / "results.jsonl"
    path.write_text(f"{replace(first, threads=4).to_line()}\n")
    assert threads("qr", 1) == 4


def test_a_result_says_how_many_threads_trained_it(splits: Splits, tmp_path: Path):
    (job,) = plan(["ud"], ["mf"], ["75%"], 1, settings=TINY)
    assert done(job, splits, tmp_path)["75%"].threads == torch.get_num_threads()


def test_a_folder_of_refused_cells_alone_merges_too(tmp_path: Path):
    refused, mine = Results(tmp_path / "refused"), Results(tmp_path / "mine")
    refused.add([replace(made_up(tmp_path, "ud", [0.5]), error="too small")])
    mine.merge(refused)
    assert [one.error for one in Results(mine.folder).all] == ["too small"]


def test_dimensions_that_differ_are_not_compared():
    narrow = {("ud", "mf"): {"dim": 8}}
    with pytest.raises(ConfigError, match=r"the same dimension.*ud has 8, qr has 128"):
        plan(["ud", "qr"], ["mf"], ["90%"], 1, tuned=narrow)


def test_an_empty_folder_has_nothing_to_merge(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no results \(no results.jsonl\)"):
        Results(tmp_path / "mine").merge(Results(tmp_path / "empty"))


def test_a_line_that_is_no_result_is_named(tmp_path: Path):
    (tmp_path / "results.jsonl").write_text('{"method": "ud"\n')
    with pytest.raises(DataError, match=r"results\.jsonl holds something that is no result"):
        Results(tmp_path)


# Tables


def test_the_spread_is_mean_and_sample_deviation():
    # (0.1, 0.2): mean 0.15, squared distances 2 * 0.0025, divided by n - 1 = 1: √0.005 = 0.0707.
    assert spread([0.1, 0.2]) == "0.1500 ± 0.0707"
    assert spread([0.25]) == "0.2500"


@pytest.fixture
def compared(tmp_path: Path) -> TablePage:
    """At 90%: cerp beats ud clearly, qr is refused, full is above all; popularity is the floor."""
    results = Results(tmp_path)
    shape = {"nnz": 80, "sparsity": 0.9, "paper_count": 80, "stored_count": 1234, "avg_dim": 1.25}
    results.add(
        [
            made_up(tmp_path, POPULARITY, np.full(50, 0.05), budget=None, config=None),
            made_up(tmp_path, "full", np.full(50, 0.9), budget="full"),
            *(
                made_up(tmp_path, "cerp", np.full(50, score), seed=seed, is_tuned=True, **shape)
                for seed, score in enumerate((0.2, 0.3, 0.4))
            ),
            *(
                made_up(tmp_path, "ud", np.full(50, 0.1), seed=seed, values="fp32", file_bytes=4321)
                for seed in range(3)
            ),
            made_up(tmp_path, "ud", np.full(50, 0.3), budget="1KB", values="int4"),
        ]
    )
    refusal = replace(
        results.all[0], method="qr", backbone="mf", budget="90%", error="<b>|too small"
    )
    results.add([replace(refusal, ndcg10=None, recall10=None)])
    return comparison_page(results)


def test_tables_are_by_budget_values_first_and_methods_by_score(compared: TablePage):
    titles = [section.title for section in compared.sections]
    assert titles == ["mf, 90% (equal values)", "mf, 1KB (equal bytes)"]
    first, second = compared.sections
    assert [row[0] for row in first.rows] == ["full", "cerp", "ud", "popularity"]
    assert [row[0] for row in second.rows] == ["full", "ud", "popularity"]


def test_a_row_has_counts_spreads_and_the_mark_against_the_best_other(compared: TablePage):
    rows = {row[0]: dict(zip(HEADER, row, strict=True)) for row in compared.sections[0].rows}
    cerp = rows["cerp"]
    assert (cerp["sparsity"], cerp["avg dim"]) == ("90.00%", "1.2")
    assert (cerp["values, paper's count"], cerp["values, all stored"]) == ("80", "1,234")
    # Seeds 0.2, 0.3 and 0.4: deviation √(2 * 0.1² / 2) = 0.1; recall is half of it.
    assert cerp["NDCG@10"] == "0.3000 ± 0.1000"
    assert cerp["Recall@10"] == "0.1500 ± 0.0500"
    assert (cerp["seeds"], cerp["against best other"]) == ("3", "better (ud)")
    # t = (.3 - .1) / √(.1² / 3) = 2√3 with two degrees of freedom.
    assert cerp["p over seeds"] == "0.074"
    # Full is not within the budget: nobody is held against it, but it against the best.
    assert rows["full"]["against best other"] == "too few seeds (cerp)"
    assert rows["ud"]["against best other"] == "worse (cerp)"
    assert (rows["ud"]["stored as"], rows["ud"]["file bytes"]) == ("fp32", "4,321")


def test_what_is_refused_tuned_and_agreed_upon_is_said(compared: TablePage):
    assert compared.sections[0].notes == ["qr is not here: <b>|too small"]
    notes = " ".join(compared.notes)
    assert "those of a search for cerp (mf)." in notes
    assert "Full ranking over all items" in compared.conventions
    assert "f" * 64 in notes
    assert "Seeds: 0, 1, 2." in notes


def test_markdown_aligns_its_columns(compared: TablePage):
    lines = [line for line in to_markdown(compared).splitlines() if line.startswith("|")]
    table = lines[: 2 + len(compared.sections[0].rows)]
    assert len({len(line) for line in table}) == 1
    assert {line.count("|") for line in table} == {len(HEADER) + 1}


class _Tags(HTMLParser):
    """Checks that tags are closed in order, and notes names and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_escapes_and_asks_the_network_for_nothing(compared: TablePage):
    page, tags = to_html(compared), _Tags()
    tags.feed(page)
    assert tags.open == []
    assert not tags.seen & {"script", "link", "img", "iframe", "b"}
    assert not tags.attributes & {"src", "style"}
    assert set(re.findall(r'href="([^"]*)"', page)) == {"#table-1", "#table-2", "#notes"}
    assert "url(" not in page
    assert "@import" not in page
    assert "&lt;b&gt;|too small" in page
    assert '<td class="better">better (ud)</td>' in page


def test_plain_lines_tell_every_result_once(tmp_path: Path, capsys):
    results = Results(tmp_path)
    lines = Lines(results)
    results.add([made_up(tmp_path, "ud", [0.25])])
    lines.show(results, {})
    lines.show(results, {})
    assert capsys.readouterr().err == "ud.mf.90%.seed0: ndcg@10 0.2500, recall@10 0.1250\n"


def test_the_live_table_has_the_mean_so_far_and_what_runs(tmp_path: Path):
    from rich.console import Console

    results = Results(tmp_path)
    results.add([made_up(tmp_path, "ud", [0.25])])
    jobs = plan(["ud", "cerp"], ["mf"], ["90%"], 1)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(live_table(jobs, results, {"cerp.mf.seed0": "prune: 40%"}))
    assert "1 of 2 cells" in captured.get()
    assert "0.2500" in captured.get()
    assert "cerp.mf.seed0  prune: 40%" in captured.get()


# The whole


@pytest.mark.slow
def test_compare_trains_writes_tables_and_does_nothing_twice(splits: Splits, tmp_path: Path):
    splits.save(tmp_path / "data")
    options = "--methods popularity,ud --budget 75% --backbone mf --dim 8 --epochs 1"
    command = ["compare", str(tmp_path / "data"), *options.split(), "-o", str(tmp_path / "out")]
    first = CliRunner().invoke(app, [*command, "--processes", "2", "--json"])
    assert first.exit_code == 0, first.stderr
    rows = json.loads(first.stdout)["results"]
    assert {row["method"]: row["nnz"] for row in rows} == {"popularity": None, "ud": 200}
    again = CliRunner().invoke(app, command)
    assert "started" not in again.stderr
    assert "| ud " in again.stdout
    assert "avg dim" not in again.stdout
    assert "avg dim" in (tmp_path / "out" / "table.md").read_text()
    assert "conventions: ranked over all items, none of them sampled" in again.stderr
    in_full = CliRunner().invoke(app, [*command, "--verbose", "--conventions"])
    assert "avg dim" in in_full.stdout
    assert "Users without truth are left out" in " ".join(in_full.stderr.split())


def test_a_worker_ends_when_nobody_holds_its_input(splits: Splits, tmp_path: Path):
    (job,) = plan(["ud"], ["mf"], ["75%"], 1, settings={"dim": 8, "train": {"epochs": 10**6}})
    splits.save(tmp_path / "data")
    place = tmp_path / "jobs" / job.name
    place.mkdir(parents=True)
    (place / "job.json").write_text(
        json.dumps({"job": job.to_dict(), "device": "cpu", "threads": 1})
    )
    command = [sys.executable, "-m", "cerp.comparison.worker", str(place)]
    ended = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60)
    assert ended.returncode != 0
    assert b"KeyboardInterrupt" in ended.stderr
