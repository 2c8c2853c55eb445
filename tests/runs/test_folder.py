"""What a run leaves behind, what it reads again, and what it refuses before it leaves anything."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from cerp.cli import app
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import CerpError, ConfigError, DataError, OutputError
from cerp.methods.base import CHECKPOINT
from cerp.naming import model_file
from cerp.runs.fit import fit_all, load_run
from cerp.runs.folder import RunFolder
from cerp.runs.kept_split import keep_split, kept_split
from cerp.runs.planning import make_plan
from cerp.runs.sealed import read_sealed, write_sealed

CONFIG = Config(
    backbone="mf",
    budgets=("80%",),
    dim=8,
    ordering="degree",
    prune=PruneConfig(epochs=1),
    train=TrainConfig(epochs=1),
)


def splits(seed: int = 0) -> Splits:
    return synthetic(60, 40, 600).split(seed=seed)


def trained(folder: Path, **changes: object) -> Path:
    config = replace(CONFIG, **changes)
    fit_all(splits(), config, RunOptions(folder=folder, quiet=True))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# One process at a time


HOLD = """
import sys
from pathlib import Path
from cerp.runs.folder import RunFolder
with RunFolder(Path(sys.argv[1])).claimed():
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_a_folder_that_another_process_works_in_is_refused_until_it_ends(tmp_path: Path):
    folder = tmp_path / "run"
    with Popen([sys.executable, "-c", HOLD, str(folder)], stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(ConfigError, match=f"another process is at work in {folder}; wait"):
            trained(folder)
        assert [path.name for path in folder.iterdir()] == [".lock"]
        other.kill()
    assert (trained(folder) / "metrics.json").is_file()


# Refused before anything is there


@pytest.mark.parametrize(
    "changes",
    [
        {"backbone": "tower"},
        {"ordering": "alphabetical"},
        {"max_file_size": "10B"},
        {"budgets": ("10B",)},
        {"backbone": "lightgcn", "store_seen": False},
    ],
)
def test_what_is_refused_leaves_no_folder(tmp_path: Path, changes: dict[str, object]):
    with pytest.raises(ConfigError):
        trained(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_data_without_a_validation_part_is_refused_before_pruning(tmp_path: Path):
    whole = splits().refit("train+valid")
    with pytest.raises(DataError, match=r"the validation part is empty.*k_core=3"):
        fit_all(whole, CONFIG, RunOptions(folder=tmp_path / "run", quiet=True))
    assert not (tmp_path / "run").exists()


def test_a_folder_below_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file"):
        trained(tmp_path / "file" / "run")


def test_only_the_first_process_looks_whether_a_folder_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = RunOptions(folder=tmp_path, quiet=True)
    RunFolder(tmp_path).write_plan(make_plan(splits(), CONFIG, options))
    with pytest.raises(ConfigError, match="holds this run already"):
        fit_all(splits(), CONFIG, options)
    monkeypatch.setattr("cerp.runs.fit.rank", lambda: 1)
    assert len(fit_all(splits(), CONFIG, options)) == 1


# Read again


def test_reading_a_finished_run_changes_nothing(tmp_path: Path):
    run = trained(tmp_path / "run")
    result = json.loads((run / "metrics.json").read_text())
    (run / "metrics.json").write_text(json.dumps({**result, "device": "another machine"}))
    before = contents(run)
    [model] = load_run(run, splits())
    fit_all(splits(), CONFIG, RunOptions(folder=run, resume=True, quiet=True))
    assert model.metrics["test"] == result["models"][0]["test"]
    assert contents(run) == before


@pytest.mark.parametrize(
    "name",
    [
        "trained-80pct.safetensors",
        "searched.safetensors",
        "judged-80pct.json",
        "shipped-80pct.json",
    ],
)
def test_a_run_that_lacks_a_file_is_not_trained_again_by_reading(tmp_path: Path, name: str):
    run = trained(tmp_path / "run")
    (run / name).unlink()
    with pytest.raises(DataError, match=f"lacks {name}"):
        load_run(run, splits())
    assert not (run / name).exists()


def test_a_configuration_that_no_run_wrote_is_refused(tmp_path: Path):
    run = trained(tmp_path / "run")
    plan = read_sealed(run / "plan.json")
    del plan["config"]
    write_sealed(run / "plan.json", plan)
    with pytest.raises(DataError, match=r"plan.json is not what a run writes \(KeyError: 'config'"):
        load_run(run, splits())


def test_a_run_folder_of_the_first_version_is_named_as_such(tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(DataError, match=r"an earlier cerp.*model files \(\.cerp\) still load"):
        load_run(tmp_path, splits())


def test_a_run_folder_of_a_later_version_is_named_as_such(tmp_path: Path):
    (tmp_path / "plan.json").write_text('{"format": 99}')
    with pytest.raises(DataError, match=r"in the format 99, and this cerp reads 3"):
        load_run(tmp_path, splits())


@pytest.mark.parametrize("assignment", ["hash", "learned"])
@pytest.mark.parametrize("budgets", [("80%",), ("900B",)])
def test_loading_a_run_computes_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budgets: tuple[str, ...], assignment: str
):
    run = trained(tmp_path / "run", budgets=budgets, assignment=assignment)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    for name in ("planning.order", "planning.precision_plan", "vector_pipeline.train",
                 "pipeline.evaluate", "fit.make_plan"):  # fmt: skip
        monkeypatch.setattr(f"cerp.runs.{name}", refused)
    monkeypatch.setattr("cerp.methods.cerp.graph_codes", refused)
    monkeypatch.setattr("cerp.models.recommender.Recommender.scorer", refused)
    monkeypatch.setattr("cerp.models.embeddings.compositional.count_usage", refused)
    [model] = load_run(run, splits())
    stored = json.loads((run / "metrics.json").read_text())["models"][0]
    assert model.facts.to_json() == stored
    monkeypatch.undo()
    assert model.file() == (model_file(run, budgets[0])).read_bytes()


def test_a_model_is_found_again_whatever_a_search_for_sizes_would_say_today(tmp_path: Path):
    # Another zlib packs positions into other sizes: looking the limit up among newly
    # searched ones found nothing.
    run = trained(tmp_path / "run", budgets=("900B",))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cerp.sizing.size_search.table_bytes", lambda *_, **__: 10_000)
        [model] = load_run(run, splits())
    assert model.facts.embedding_bytes is not None
    assert model.facts.embedding_bytes <= 900


def test_seconds_are_those_of_search_and_training_together(monkeypatch: pytest.MonkeyPatch):
    # A clock that is a second later whenever it is looked at: twice by each of three stages.
    clock = SimpleNamespace(monotonic=count().__next__)
    for module in ("pipeline", "vector_pipeline"):
        monkeypatch.setattr(f"cerp.runs.{module}.time", clock)
    [model] = fit_all(splits(), CONFIG, RunOptions(quiet=True))
    assert model.facts.seconds == 1 + 1 + 1


# Judged only on what it has not learned


def judged(model: Path, data: Splits, folder: Path, part: str) -> tuple[float | None, str]:
    """NDCG@10 of `cerp evaluate`, or the error's words."""
    data.save(folder)
    command = ["evaluate", str(model), "-d", str(folder), "--on", part, "--json"]
    result = CliRunner().invoke(app, command)
    if isinstance(result.exception, CerpError):
        return None, str(result.exception)
    return json.loads(result.stdout)["ndcg@10"], ""


@pytest.mark.parametrize("name", ["", "model-80pct.cerp"])
@pytest.mark.parametrize(
    ("refit", "refused"), [(None, []), ("train+valid", ["valid"]), ("all", ["valid", "test"])]
)
def test_a_model_is_not_judged_on_what_it_was_trained_on(
    tmp_path: Path, name: str, refit: str | None, refused: list[str]
):
    model = trained(tmp_path / "run", refit=refit) / name
    for part in ("valid", "test"):
        found, words = judged(model, splits(), tmp_path / part, part)
        assert (found is None) == (part in refused)
        assert ("it would be asked what it was told" in words) == (part in refused)


def test_a_file_of_another_split_is_not_judged(tmp_path: Path):
    model = trained(tmp_path / "run") / "model-80pct.cerp"
    found, words = judged(model, splits(seed=1), tmp_path / "data", "test")
    assert found is None
    assert "another split of these users and items" in words


@pytest.mark.parametrize(
    ("method", "options"), [("ud", {}), ("qr", {}), ("magnitude", {"of": "table"})]
)
def test_rows_are_not_learned_for_a_method_without_codebooks(
    tmp_path: Path, method: str, options: dict[str, str]
):
    # It was trained as if nothing had been asked, and the run could not be read again.
    with pytest.raises(ConfigError, match=f"the method '{method}' has no codebooks"):
        trained(tmp_path / "run", method=method, method_options=options, assignment="learned")
    assert not (tmp_path / "run").exists()


def test_magnitude_pruning_of_codebooks_learns_its_rows(tmp_path: Path):
    # They were drawn at random.
    run = trained(
        tmp_path / "run", method="magnitude", method_options={"of": "codebooks"},
        assignment="learned", codebooks=2,
    )  # fmt: skip
    [model] = load_run(run, splits())
    plain = trained(tmp_path / "plain", assignment="learned", codebooks=2)
    [cerp_model] = load_run(plain, splits())
    mine, theirs = (one.recommender.embedding.codes for one in (model, cerp_model))
    assert mine.tolist() == theirs.tolist()


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch):
    def refused(self: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    with pytest.raises(ConfigError, match=r"cannot write .*run: Permission denied; choose"):
        trained(tmp_path / "run")


def test_a_folder_with_percent_signs_in_its_names_still_loads(tmp_path: Path):
    run = trained(tmp_path / "run")
    for file in run.glob("*80pct*"):
        file.rename(run / file.name.replace("pct", "%"))
    [model] = load_run(run, splits())
    assert model.file() == (run / "model-80%.cerp").read_bytes()


def test_overwriting_removes_the_run_and_nothing_else(tmp_path: Path):
    run = trained(tmp_path / "run")
    (run / "notes.txt").write_text("mine")
    [model] = fit_all(splits(), replace(CONFIG, seed=5), RunOptions(folder=run, overwrite=True))
    assert model.config.seed == 5
    assert (run / "notes.txt").read_text() == "mine"


def test_a_run_says_in_words_how_the_data_differs(tmp_path: Path):
    run = trained(tmp_path / "run")
    keep_split(run, splits())
    assert kept_split(run / "model-80pct.cerp").fingerprint == splits().fingerprint
    with pytest.raises(DataError, match=r"split by random \(seed 1, .*where the run was by random"):
        load_run(run, splits(seed=1))
    fewer = synthetic(40, 30, 400).split()
    with pytest.raises(DataError, match="it has 40 users, where the run had"):
        load_run(run, fewer)


@pytest.mark.parametrize(
    "remove",
    [lambda folder: folder.finish({}), lambda folder: folder.drop_stages(["trained-80pct"])],
    ids=["checkpoint", "stages"],
)
def test_a_disk_that_fails_when_a_file_is_removed_is_named(
    tmp_path: Path, monkeypatch, remove: Callable[[RunFolder], None]
):
    def broken(path: Path, **_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(Path, "unlink", broken)
    with pytest.raises(OutputError, match="Input/output error"):
        remove(RunFolder(tmp_path))


def test_a_run_is_finished_when_nothing_is_left_to_be_removed(tmp_path: Path, monkeypatch):
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / CHECKPOINT).touch()
    RunFolder(tmp_path).stage("train 80%").touch()
    monkeypatch.setattr("cerp.runs.folder.write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        RunFolder(tmp_path).finish({})
    assert list(tmp_path.iterdir()) == []
