"""`cerp report`: one page about several runs, whose figures are those of the runs."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

import cerp.pages
import cerp.runs.fit
import cerp.server
from cerp.artifact import ComposedEmbedding, Encoding, Index, Table, encode
from cerp.cli import app
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import DataError
from cerp.evaluation.baselines import Random
from cerp.evaluation.evaluate import evaluate
from cerp.evaluation.id_leak import id_leak
from cerp.evaluation.popularity import popularity_groups
from cerp.naming import model_file
from cerp.pages.charts import Point, Series
from cerp.pages.numbers import UNKNOWN
from cerp.presets import preset
from cerp.reports import accuracy as accuracy_module
from cerp.reports.commands import train_command
from cerp.reports.findings import find
from cerp.reports.finished_runs import ModelFile, read_runs
from cerp.reports.judging import judge
from cerp.reports.page import page
from cerp.reports.sentences import what_is_not_shown, what_is_shown
from cerp.reports.sizes import section_key, stacked_bar
from cerp.runs.facts import ModelFacts
from small_models import DIM, NUM_ITEMS, NUM_USERS, small_model

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FINGERPRINT = "5eed" * 16
SPLITS = synthetic(120, 80, 1500).split(seed=0)


def summary(budget: str, ndcg: float, **changed: Any) -> dict[str, Any]:
    """A model of metrics.json; validation is half the test figure."""
    group = {"users": 20, "ndcg@10": ndcg, "recall@10": ndcg}
    test = {"on": "test", **group, "head": group | {"recall@10": 0.4321}, "tail": {"users": 0}}
    counts = {"limit": 90, "nnz": 84, "paper_count": 84, "stored_count": 84, "avg_dim": 5.04}
    facts = ModelFacts(
        budget,
        **counts,
        overlap=None,
        buckets=None,
        empty_entities=None,
        empty_rows=None,
        best_epoch=3,
        best_valid=ndcg / 2,
        selection_metric="ndcg@10",
        seconds=1.5,
        search=None,
        values="fp32",
        metrics={"valid": {"ndcg@10": ndcg / 2}, "test": test},
    )
    return facts.to_json() | changed


def write_run(
    folder: Path, *models: dict[str, Any], fingerprint: str = FINGERPRINT, **settings: Any
) -> Path:
    """A run folder as `cerp train` leaves it, with the same small file for every model."""
    folder.mkdir(parents=True)
    data = encode(small_model("mf"), Encoding())
    for model in models:
        if "why_no_file" not in model:
            (model_file(folder, model["budget"])).write_bytes(data)
            model |= {"embedding_bytes": 500, "file_bytes": len(data)}
    config = Config(backbone="mf", dim=DIM, **settings).to_dict()
    result = {"config": config, "fingerprint": fingerprint, "version": "0.1.0", "device": "cpu"}
    (folder / "metrics.json").write_text(json.dumps(result | {"id_leak": None, "models": models}))
    return folder


def page_of(*folders: Path, title: str = "Title") -> str:
    return page(find(read_runs(folders)), title)


def text_of(html: str) -> str:
    """What a reader sees, in one line."""
    words: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            words.append(data)

    parser = Reader(convert_charrefs=True)
    parser.feed(re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL))
    return " ".join(" ".join(words).split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two real runs: CERP at two budgets, and full size."""
    folder = tmp_path_factory.mktemp("trained")
    training = TrainConfig(epochs=3, evaluate_every=1, batch_size=256, learning_rate=1e-2)
    shared = {"backbone": "lightgcn", "dim": 8, "train": training}
    configs = {
        "cerp": Config(budgets=("80%", "95%"), prune=PruneConfig(epochs=2), **shared),
        "full": Config(method="full", **shared),
    }
    for name, config in configs.items():
        cerp.runs.fit.fit_all(SPLITS, config, RunOptions(folder=folder / name, quiet=True))
    return [folder / name for name in configs]


# Runs


def test_the_figures_of_a_run_are_on_the_page(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("90%", 0.12341))
    size = (run / "model-90pct.cerp").stat().st_size
    text = text_of(page_of(run))
    assert "On the test part it has NDCG@10 0.1234" in text
    assert f"Its file has {size:,} bytes" in text
    # 25 users and 40 items with 12 dimensions of 4 bytes.
    assert "500 of them, 16.0% of the 3,120 bytes of the full table" in text
    assert "25 users, 40 items" in text
    assert "0.4321" in text


def test_runs_of_different_data_are_refused_by_name(tmp_path: Path):
    first = write_run(tmp_path / "first", summary("90%", 0.1))
    second = write_run(tmp_path / "second", summary("90%", 0.1), fingerprint="0dd" * 21)
    with pytest.raises(DataError, match=r"second and .*first were trained on different data"):
        read_runs([first, second])


def test_a_run_given_twice_is_refused(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("90%", 0.1))
    with pytest.raises(DataError, match="more than once"):
        read_runs([run, run])


def test_an_unfinished_run_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"holds no finished run.*resume=True"):
        read_runs([tmp_path])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"config": {"methd": 1}}', '{"config": 3}'])
def test_metrics_that_cerp_did_not_write_are_refused(tmp_path: Path, content: str):
    (tmp_path / "metrics.json").write_text(content)
    with pytest.raises(DataError, match=r"metrics\.json is not what a run of this version writes"):
        read_runs([tmp_path])


def test_a_file_that_is_not_that_of_the_run_is_refused(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("90%", 0.1))
    (run / "model-90pct.cerp").write_bytes(encode(small_model("mf"), Encoding("int8")))
    with pytest.raises(DataError, match="not the file of this run"):
        find(read_runs([run]))


def test_runs_are_labelled_by_what_tells_them_apart(tmp_path: Path):
    one = summary("90%", 0.1)
    folders = [
        write_run(tmp_path / "a", one, ordering="spectral"),
        write_run(tmp_path / "b", one, ordering="shuffled"),
        write_run(tmp_path / "c", one, method="ud", seed=3),
        write_run(tmp_path / "d", one, method="ud", seed=3),
    ]
    labels = [run.label for run in read_runs(folders)]
    assert labels == ["cerp spectral", "cerp shuffled", f"ud ({folders[2]})", f"ud ({folders[3]})"]


def test_runs_that_differ_in_how_rows_are_chosen_say_so_behind_the_method(tmp_path: Path):
    one = summary("90%", 0.1)
    folders = [
        write_run(tmp_path / "a", one, assignment="hash"),
        write_run(tmp_path / "b", one, assignment="learned", codebooks=4),
        write_run(tmp_path / "c", one, assignment="learned", codebooks=2),
    ]
    labels = [run.label for run in read_runs(folders)]
    assert labels == ["cerp hash", "cerp learned codebooks 4", "cerp learned codebooks 2"]
    learned = replace(preset("default", "lightgcn", assignment="learned"), codebooks=4)
    hashed = preset("default", "lightgcn", assignment="hash")
    commands = [train_command(config, "DATA", "run") or "" for config in (learned, hashed)]
    assert "--codebooks 4" in commands[0]  # learned is what the preset has
    assert "--assignment hash" in commands[1]


# What is said


def test_the_best_compact_model_is_chosen_by_validation_not_by_test(tmp_path: Path):
    lucky = summary("90%", 0.9) | {"valid": {"ndcg@10": 0.1}}
    run = write_run(tmp_path / "run", lucky, summary("95%", 0.5))
    full = write_run(tmp_path / "full", summary("full", 0.8), method="full")
    found = find(read_runs([run, full]))
    assert found.best is not None
    assert found.best.label == "cerp 95%"
    # 0.5 of 0.8
    assert "has 0.8000: the compact one reaches 62.5% of that" in what_is_shown(found)


def test_what_the_figures_cannot_show_is_said(tmp_path: Path):
    stalled = summary("90%", 0.1, search={"reached": False})
    run = write_run(tmp_path / "run", stalled, train=TrainConfig(epochs=3))
    notes = " ".join(what_is_not_shown(find(read_runs([run]))))
    assert "No full-size run" in notes
    assert "made without the data" in notes
    assert "trained with one seed" in notes
    assert "best epoch was the last one for cerp 90%" in notes
    assert "did not reach the budget of cerp 90%" in notes


def test_nothing_is_said_of_seeds_when_several_were_trained(tmp_path: Path):
    runs = [write_run(tmp_path / str(seed), summary("90%", 0.1), seed=seed) for seed in (0, 1)]
    assert "one seed" not in " ".join(what_is_not_shown(find(read_runs(runs))))


def test_raw_ids_come_with_their_leak_figures(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("90%", 0.1), ordering="native")
    result = json.loads((run / "metrics.json").read_text())
    result["id_leak"] = id_leak(SPLITS).summary()  # as a run writes it
    result["id_leak"]["item_window"] |= {"native": 0.0153, "shuffled": 0.0006}
    (run / "metrics.json").write_text(json.dumps(result))
    assert "item window 0.0153 against 0.0006 shuffled" in text_of(page_of(run))


# Missing parts


def test_data_without_a_test_part_is_refused(trained: list[Path], monkeypatch: pytest.MonkeyPatch):
    nobody = SPLITS.test.subset(np.zeros(len(SPLITS.test), dtype=bool))
    monkeypatch.setattr(Splits, "fingerprint", SPLITS.fingerprint)
    with pytest.raises(DataError, match="no test part"):
        find(read_runs(trained), Splits(SPLITS.train, SPLITS.valid, nobody))


def test_a_method_without_a_file_is_shown_with_its_reason(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("90%", 0.2, why_no_file="no rows <to> store"))
    text = text_of(page_of(run))
    assert "cerp 90%: no rows <to> store" in text
    assert "0.2000" in text


def test_a_full_size_run_alone_makes_a_page(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("full", 0.2), method="full")
    assert "No compact model with test figures is among the runs. full on mf has" in text_of(
        page_of(run)
    )


def test_a_model_refitted_on_everything_has_no_test_figures(tmp_path: Path):
    shipped = summary("90%", 0.2, test=None)
    text = text_of(page_of(write_run(tmp_path / "run", shipped, refit="all")))
    assert "No test figures: cerp 90%, refitted on everything" in text
    assert ".." not in text


@pytest.mark.parametrize(
    ("every", "often"), [(1, "after every epoch"), (5, "every 5 epochs and after the last")]
)
def test_the_validation_curve_says_how_often_it_was_judged(tmp_path: Path, every: int, often: str):
    training = TrainConfig(epochs=3, evaluate_every=every)
    run = write_run(tmp_path / "run", summary("90%", 0.2), train=training)
    row = {"stage": "train 90%", "epoch": 3, "loss": 2.5, "valid_ndcg@10": 0.1}
    (run / "curves.jsonl").write_text(json.dumps(row))
    assert f"NDCG@10 on validation, judged {often}" in text_of(page_of(run))


def test_curves_are_drawn_where_there_are_any(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("90%", 0.2))
    assert "Without curves: cerp." in text_of(page_of(run))
    rows = [
        {"stage": "prune", "epoch": 1, "loss": 2.5, "gamma": 0.001, "mean_threshold": -14.2},
        {"stage": "prune", "epoch": 2, "loss": float("nan"), "gamma": None},
    ]
    (run / "curves.jsonl").write_text("\n".join(map(json.dumps, rows)))
    html = page_of(run)
    assert "prune: 2.5 in epoch 1" in html
    assert "prune: -14.2 in epoch 1" in html
    assert "nan" not in html.lower()


def test_curves_are_marked_where_pruning_starts(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("90%", 0.2))
    dense = {"stage": "prune", "epoch": 1, "sparsity": 0.86, "penalty": -4.5}
    later = dense | {"epoch": 2, "sparsity": 0.9, "pruning_started": 1.55}
    training = {"stage": "train 90%", "epoch": 1, "valid_ndcg@10": 0.1}
    (run / "curves.jsonl").write_text("\n".join(map(json.dumps, [dense, later, training])))
    html = page_of(run)
    assert html.count("pruning starts: epoch 1.55") == 2, "of sparsity and penalty, not of accuracy"
    assert text_of(html).count("pruning starts") >= 2
    (run / "curves.jsonl").write_text(json.dumps(dense))
    assert "pruning starts" not in page_of(run)


def test_what_pruning_has_left_is_shown_of_codebooks_alone(tmp_path: Path):
    bare = write_run(tmp_path / "bare", summary("90%", 0.1))
    assert "What pruning has left" not in page_of(bare)
    left = {"overlap": 0.0725, "dim_deviation": 1.25, "empty_entities": 3, "few_values": 17}
    run = write_run(tmp_path / "run", summary("90%", 0.2, **left))
    assert "cerp 90% 5.04 1.25 7.25% 3 17" in text_of(page_of(run))
    before = summary("90%", 0.2, overlap=0.5)  # as versions wrote it that did not count the rest
    del before["dim_deviation"], before["few_values"]
    old = write_run(tmp_path / "old", before)
    assert f"cerp 90% 5.04 {UNKNOWN} 50.0% {UNKNOWN} {UNKNOWN}" in text_of(page_of(old))


def test_curves_that_cerp_did_not_write_are_refused(tmp_path: Path):
    run = write_run(tmp_path / "run", summary("90%", 0.2))
    (run / "curves.jsonl").write_text('{"epoch": 1}\n')
    with pytest.raises(DataError, match=r"curves\.jsonl is not what"):
        read_runs([run])


# The page as a file


def test_the_page_refers_to_nothing_outside_and_runs_no_script(trained: list[Path]):
    html = page_of(*trained)
    assert set(re.findall(r'(?:href|src)="([^"]*)"', html)) == {
        f"#{anchor}" for anchor in re.findall(r'<section id="(\w+)"', html)
    }
    assert not re.search(r"url\(|@import|<script|<link|<img|<iframe|https?://", html)


def test_the_page_is_far_below_three_megabytes_at_the_widest(tmp_path: Path):
    model = replace(
        small_model("mf"),
        embedding=ComposedEmbedding(
            (Table(Index("identity"), np.ones((NUM_USERS + NUM_ITEMS, 128), dtype=np.float32)),)
        ),
    )
    data = encode(model, Encoding())
    runs = []
    for seed in range(12):
        run = write_run(tmp_path / str(seed), summary("90%", 0.1, file_bytes=0), seed=seed)
        result = json.loads((run / "metrics.json").read_text())
        result["models"][0]["file_bytes"] = len(data)
        (run / "metrics.json").write_text(json.dumps(result))
        (run / "model-90pct.cerp").write_bytes(data)
        curve = [{"stage": "train", "epoch": e, "loss": 1 / e, "nnz": e} for e in range(1, 400)]
        (run / "curves.jsonl").write_text("\n".join(map(json.dumps, curve)))
        runs.append(run)
    assert len(page_of(*runs).encode()) < 1_000_000


def test_titles_ids_and_paths_are_escaped(tmp_path: Path):
    hostile = '<script>alert("&")</script>'
    ids = Ids([f"{number}<b>" for number in range(NUM_USERS)])
    data = encode(replace(small_model("mf"), users=ids), Encoding())
    run = write_run(tmp_path / "<i>run", summary("90%", 0.1))
    result = json.loads((run / "metrics.json").read_text())
    result |= {"device": hostile, "version": hostile}
    result["models"][0]["file_bytes"] = len(data)
    (run / "metrics.json").write_text(json.dumps(result))
    (run / "model-90pct.cerp").write_bytes(data)
    (run / "curves.jsonl").write_text(json.dumps({"stage": hostile, "epoch": 1, "loss": 1}))
    html = page_of(run, title=hostile)
    assert not re.search(r"<(script|b|i)>", html)
    assert text_of(html).count(hostile) >= 5


def test_the_same_runs_give_the_same_page(trained: list[Path]):
    assert page_of(*trained) == page_of(*trained)


def test_the_report_and_the_page_of_the_server_have_the_same_colours():
    def palette(module: Any, name: str) -> dict[tuple[int, str], str]:
        style = (Path(module.__file__).parent / name).read_text(encoding="utf-8")
        schemes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
        return {
            (scheme, key): value
            for scheme, text in enumerate(schemes)
            for key, value in re.findall(r"--([\w-]+): (#\w+)", text)
        }

    ours, theirs = palette(cerp.pages, "colours.css"), palette(cerp.server, "page/style.css")
    shared = ours.keys() & theirs.keys()
    assert len(shared) >= 2 * 15
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}


# Bytes


def test_the_sections_in_the_table_add_up_to_the_file(trained: list[Path]):
    html = page_of(*trained)
    (bytes_table,) = re.findall(
        r"<figcaption>Every byte of the files</figcaption>.*?</table>", html
    )
    rows = [
        [int(cell.replace(",", "")) for cell in re.findall(r"<td>([\d,]+)</td>", row)]
        for row in re.findall(r"<tr>.*?</tr>", bytes_table)
    ]
    *sections, total = (row for row in rows if row)
    assert np.sum(sections, axis=0).tolist() == total
    on_disk = [
        model_file(folder, b)
        for folder, b in zip(
            [trained[0], trained[0], trained[1]], ["80%", "95%", "full"], strict=True
        )
    ]
    assert total == [path.stat().st_size for path in on_disk]


def test_bars_are_as_wide_as_their_share_of_the_scale():
    bar = stacked_bar("file", [("values", 30, "part-0"), ("ids", 10, "part-1")], scale=80)
    assert [(rect.get("x"), rect.get("width")) for rect in bar.iter("rect")] == [
        ("0.0000%", "37.5000%"),
        ("37.5000%", "12.5000%"),
    ]


# With the data


def test_files_are_judged_as_evaluate_judges_them():
    scorer = Random(SPLITS.num_items, seed=1)
    ours, theirs = judge(scorer, SPLITS), evaluate(scorer, SPLITS, ks=[10])
    assert np.array_equal(ours.users, theirs.users)
    for name in ("ndcg@10", "recall@10"):
        np.testing.assert_array_equal(ours.per_user[name], theirs.per_user[name])


def test_recall_by_popularity_is_the_hand_computed_one():
    # Item i has 20 - i users in training, so that items 2g and 2g+1 make group g.
    pairs = [(user, item) for item in range(20) for user in range(20 - item)]
    test = [(20, 0), (20, 5), (20, 4), (21, 0)]
    users, items = Ids.range(22), Ids.range(20)
    train, truth, empty = (
        Interactions.from_codes(*np.reshape(some, (-1, 2)).T, users=users, items=items)
        for some in (pairs, test, np.empty((0, 2), dtype=np.int64))
    )
    splits = Splits(train, empty, truth)

    class FirstTenButZero:
        def score_all(self, users: np.ndarray) -> np.ndarray:
            return np.tile(np.where(np.arange(20) == 0, -99.0, -np.arange(20.0)), (len(users), 1))

    assert popularity_groups(train).tolist() == [item // 2 for item in range(20)]
    # Both look for item 0 in vain; user 20 finds items 4 and 5. Nobody's truth is elsewhere.
    recalls = judge(FirstTenButZero(), splits).recall_by_group["recall@10"]
    assert recalls == [0, None, 1, *[None] * 7]


def test_the_data_adds_popularity_intervals_and_tenths(trained: list[Path]):
    found = find(read_runs(trained), SPLITS)
    assert found.popularity is not None
    floor = found.popularity.mean["ndcg@10"]
    assert floor == pytest.approx(
        evaluate(cerp.evaluation.baselines.Popularity(SPLITS.train), SPLITS, ks=[10]).mean[
            "ndcg@10"
        ]
    )
    for model, judged in found.judgements.models.items():
        score = judged.mean["ndcg@10"]
        assert score == pytest.approx(model.test["ndcg@10"], abs=1e-6)
    assert set(found.differences) == {"cerp 80%", "cerp 95%", "full", "popularity"} - {
        found.best.label
    }
    text = text_of(page(found, "Title", "my-data"))
    assert "tenth 10" in text
    assert f"have NDCG@10 {floor:.4f}" in text


def test_other_data_than_that_of_the_runs_is_refused(trained: list[Path]):
    with pytest.raises(DataError, match="not what the runs were trained on"):
        find(read_runs(trained), synthetic(120, 80, 1500, seed=9).split(seed=0))


# How to reproduce


@pytest.mark.parametrize(
    "config",
    [
        Config(budgets=("90%", "99%"), seed=7, dim=64),
        Config(method="ud", backbone="mf", budgets=("400KB",), max_file_size="2MB"),
        Config(budgets=("2MB",), max_file_size="2MB", store_seen=False, refit="train+valid"),
        Config(budgets=("99%",), mix=True),
        Config(budgets=("99%",), mix="together"),
        replace(preset("paper", "mlp"), budgets=("95%",), dim=16),
        replace(preset("default", "lightgcn", "full"), dim=32),
        Config(
            prune=PruneConfig(epochs=6, gamma=0.1, batch_size=512),
            train=TrainConfig(epochs=9, learning_rate=0.01, batch_size=512),
        ),
        Config(prune=PruneConfig(epoch_size=7), train=TrainConfig(epoch_size=7)),
    ],
)
def test_the_command_trains_the_very_configuration(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    SPLITS.save(tmp_path / "data")
    monkeypatch.chdir(tmp_path)  # where the run would go
    asked: list[Config] = []

    def fit_all(splits: object, config: Config, options: object) -> list[object]:
        asked.append(config)
        return []

    monkeypatch.setattr(cerp.runs.fit, "fit_all", fit_all)
    command = train_command(config, str(tmp_path / "data"), "run")
    assert command is not None
    CliRunner().invoke(app, shlex.split(command)[1:])
    assert asked == [config]


def test_settings_without_an_option_are_left_to_python():
    assert train_command(Config(rewind="initial"), "DATA", "run") is None
    assert train_command(Config(prune=PruneConfig(batch_size=64)), "DATA", "run") is None
    assert train_command(Config(train=TrainConfig(epoch_size=64)), "DATA", "run") is None
    assert train_command(Config(method_options={"size": 3}), "DATA", "run") is None


# From Python, and from the command line


def test_report_writes_the_page_and_says_what_is_in_it(trained: list[Path], tmp_path: Path):
    made = cerp.report(trained, tmp_path / "out.html", data=SPLITS, title="For Ada")
    assert made.path.stat().st_size == made.bytes
    assert "<h1>For Ada</h1>" in made.path.read_text(encoding="utf-8")
    assert set(made.models) == {"cerp 80%", "cerp 95%", "full"}
    assert made.best in made.models
    assert made.fingerprint == SPLITS.fingerprint
    assert repr(made).endswith(f"3 models, best: {made.best})")


def test_one_run_needs_no_list(trained: list[Path], tmp_path: Path):
    assert set(cerp.report(str(trained[1]), tmp_path / "out.html").models) == {"full"}


def test_models_stand_by_falling_accuracy_and_the_best_is_bold(tmp_path: Path):
    models = [summary("90%", 0.1), summary("80%", 0.3), summary("70%", 0.2)]
    html = page_of(write_run(tmp_path / "run", *models))
    (all_models,) = re.findall(r"<figcaption>All models</figcaption>.*?</table>", html, re.DOTALL)
    assert re.findall(r'scope="row">(.*?)<', all_models) == ["cerp 80%", "cerp 70%", "cerp 90%"]
    assert re.findall(r"<strong>(.*?)<", all_models) == ["0.3000", "0.3000"]


def test_runs_selected_by_another_metric_are_compared_by_it(tmp_path: Path):
    models = [summary("90%", 0.1), summary("80%", 0.3)]
    for model, recall in zip(models, (0.8, 0.7), strict=True):
        model["test"] |= {"recall@20": recall, "ndcg@20": 0.5}
        model |= {"selection_metric": "recall@20", "best_valid_recall@20": recall}
        model["valid"] |= {"recall@20": recall}
    run = write_run(tmp_path / "run", *models, selection_metric="recall@20")
    found = find(read_runs([run]))
    assert (found.metric, found.best and found.best.label) == ("recall@20", "cerp 90%")
    assert "it has Recall@20 0.8000 and NDCG@20 0.5000" in what_is_shown(found)


def test_a_section_that_is_new_in_the_format_has_a_colour_too():
    file = ModelFile(Path("model.cerp"), {"header": 10, "brand new": 5}, small_model("mf"))
    assert [entry.text or entry[0].tail for entry in section_key([file]).iter("li")] == [
        "header",
        "brand new",
    ]


def test_the_command_writes_the_page_and_says_what_is_in_it(trained: list[Path], tmp_path: Path):
    SPLITS.save(tmp_path / "data")
    output = tmp_path / "out.html"
    arguments = [*map(str, trained), "--data", str(tmp_path / "data"), "-o", str(output)]
    result = CliRunner().invoke(app, ["report", *arguments, "--title", "For Ada", "--json"])
    found = json.loads(result.stdout)
    assert found["bytes"] == output.stat().st_size < 3_000_000
    assert found["best"] in found["models"]
    assert "<h1>For Ada</h1>" in output.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.html"]


def test_a_phone_needs_no_sideways_scrolling(trained: list[Path], tmp_path: Path, browser: Browser):
    (tmp_path / "report.html").write_text(page_of(*trained, title="long" * 40), encoding="utf-8")
    phone = browser.new_page(viewport={"width": 390, "height": 800})
    phone.goto((tmp_path / "report.html").as_uri())
    width = phone.evaluate("document.documentElement.scrollWidth")
    hidden = phone.locator("svg").evaluate_all(
        "all => all.filter((svg) => !svg.getBoundingClientRect().height).length"
    )
    cut = phone.locator(".row-labels li").evaluate_all(
        "all => all.filter((label) => label.scrollWidth > label.clientWidth).length"
    )
    phone.close()
    assert (width, hidden, cut) == (390, 0, 0)


def test_the_hull_joins_what_no_smaller_file_is_as_good_as():
    def series(style: int, *points: tuple[float, float]) -> Series:
        return Series(str(style), style, [Point(x, y, "") for x, y in points])

    [drawn] = accuracy_module._hull(
        [series(0, (10, 0.1), (30, 0.2)), series(1, (20, 0.3), (40, 0.4))]
    )
    assert [(point.x, point.y) for point in drawn.points] == [(10, 0.1), (20, 0.3), (40, 0.4)]
    assert (drawn.style, drawn.has_markers) == (2, False)
    assert accuracy_module._hull([series(0, (10, 0.1), (30, 0.2))]) == []
