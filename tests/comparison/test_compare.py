"""`cerp.compare` from Python, and methods of other packages in its workers."""

from __future__ import annotations

import errno
import os
import textwrap
from pathlib import Path

import pytest

import cerp
from cerp.comparison import running, worker
from cerp.comparison.compare import Comparison
from cerp.comparison.jobs import Job, plan
from cerp.comparison.results import Result
from cerp.comparison.tuned import BestSettings
from cerp.comparison.worker import JobFolder
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BusyError, ConfigError, OutputError, TrainingError
from cerp.locks import claimed
from cerp.methods import METHODS

TINY = {"backbones": "mf", "budgets": "75%", "dim": 8, "epochs": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(60, 40, 600).split(seed=0)


@pytest.fixture(scope="module")
def compared(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("compared")
    return cerp.compare(splits, ["popularity", "ud"], output=folder, verbose=False, **TINY)


def test_compare_gives_the_results_and_their_tables(compared: Comparison):
    assert {result.method: result.nnz for result in compared.results} == {
        "popularity": None,
        "ud": 200,  # a quarter of 100 entities of dimension 8
    }
    assert compared.failed == {}
    assert compared.to_markdown() == (compared.folder / "table.md").read_text()
    assert "<h1>Comparison</h1>" in (compared.folder / "table.html").read_text()
    [section] = compared.tables.sections
    assert section.title == "mf, 75% (equal values)"


def test_compare_says_nothing_unless_it_is_verbose(splits: Splits, tmp_path: Path, capfd):
    asked = {**TINY, "output": tmp_path}
    cerp.compare(splits, "popularity", verbose=False, **asked)
    assert capfd.readouterr() == ("", "")


def test_one_comparison_at_a_time_works_in_a_folder(compared: Comparison, splits: Splits):
    before = (compared.folder / "results.jsonl").read_bytes()
    with (
        claimed(compared.folder, ()),
        pytest.raises(BusyError, match=f"another process is at work in {compared.folder}"),
    ):
        cerp.compare(splits, "qr", output=compared.folder, verbose=False, **TINY)
    assert (compared.folder / "results.jsonl").read_bytes() == before


def test_a_disk_that_cannot_be_read_is_named(compared: Comparison, splits: Splits, monkeypatch):
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Splits, "load", broken)
    with pytest.raises(OutputError, match="Input/output error"):
        cerp.compare(splits, "popularity", output=compared.folder, verbose=False, **TINY)
    with pytest.raises(OutputError, match="Input/output error"):
        worker.do_job(compared.folder / "jobs" / "popularity.seed0")


def test_a_comparison_shows_itself_in_a_few_lines(compared: Comparison):
    first, best = repr(compared).splitlines()
    assert first == f"Comparison({str(compared.folder)!r}, 2 results)"
    assert best.startswith("  best: ")


def test_ordinary_tables_leave_out_what_only_papers_compare(compared: Comparison):
    ordinary = compared.to_markdown(verbose=False, conventions=False)
    assert "embedding bytes" in ordinary
    assert "sparsity" not in ordinary.lower()
    assert "Users without truth" not in ordinary


def test_a_file_size_is_the_limit_of_every_method(splits: Splits, tmp_path: Path):
    asked = {**TINY, "budgets": None, "max_file_size": "2500B", "output": tmp_path}
    found = cerp.compare(splits, ["ud", "filter"], verbose=False, **asked)
    sizes = {one.method: (one.budget, one.file_bytes) for one in found.results}
    assert sizes["ud"][0] == "2500B"
    assert all(0 < size <= 2500 for _, size in sizes.values())


def test_settings_that_tune_found_are_used(splits: Splits, tmp_path: Path):
    found = BestSettings("ud", "mf", {"train": {"learning_rate": 0.25}}, {"dim": 8})
    made = cerp.compare(
        splits, "ud", output=tmp_path, settings=[found], verbose=False, **{**TINY, "dim": None}
    )
    [result] = made.results
    assert result.is_tuned
    assert result.config is not None
    assert (result.config["dim"], result.config["train"]["learning_rate"]) == (8, 0.25)


def test_a_failed_job_is_in_what_comes_back(splits: Splits, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(running, "WORKER", ["false"])
    made = cerp.compare(splits, "popularity", output=tmp_path, verbose=False, **TINY)
    assert list(made.failed) == ["popularity.seed0"]
    with pytest.raises(TrainingError, match="1 of 1 jobs failed"):
        made.raise_failures()


def test_a_job_works_its_configuration_out_once(monkeypatch):
    (job,) = plan(["ud"], ["mf"], ["75%"], 1)
    assert job.config is job.config
    assert Job.from_dict(job.to_dict()) == job


def test_results_and_logs_are_read_again_only_after_they_have_changed(tmp_path: Path, monkeypatch):
    read: list[Path] = []

    def noted(path: Path) -> list[Result]:
        read.append(path)
        return []

    monkeypatch.setattr(worker, "read_lines", noted)
    folder = JobFolder(tmp_path / "jobs" / "ud")
    folder.path.mkdir(parents=True)
    assert (folder.results(), folder.last_log_line(), read) == ([], "", [])
    (folder.path / "results.jsonl").write_text("{}\n")
    for _ in range(3):
        folder.results()
    assert len(read) == 1
    (folder.path / "results.jsonl").write_text("{}\n{}\n")
    folder.results()
    assert len(read) == 2
    (folder.path / "log.txt").write_text("first\nlast line\n\n")
    assert folder.last_log_line() == "last line"


# Methods of other packages

METHOD = """
from cerp.methods.ud import Ud


class Mine(Ud):
    \"\"\"Uniform dimensions under another name.\"\"\"
"""


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with an entry point, on the path of this process and of its workers."""
    site = tmp_path / "site"
    info = site / "my_method-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "my_method.py").write_text(textwrap.dedent(METHOD))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-method\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cerp.methods]\nmine = my_method:Mine\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(METHODS, "_parts", dict(METHODS._parts))  # what is imported is forgotten
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)


@pytest.mark.usefixtures("other_package")
def test_a_worker_knows_the_method_of_another_package(splits: Splits, tmp_path: Path):
    made = cerp.compare(splits, "mine", output=tmp_path / "out", verbose=False, **TINY)
    assert made.failed == {}
    assert [(result.method, result.nnz) for result in made.results] == [("mine", 200)]


def test_without_that_package_the_method_is_unknown(splits: Splits, tmp_path: Path):
    with pytest.raises(ConfigError, match="unknown method 'mine'; choose among all, popularity"):
        cerp.compare(splits, "mine", output=tmp_path / "out", **TINY)
