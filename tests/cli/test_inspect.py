"""`cerp inspect`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Index, Table
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.synthetic import synthetic
from cerp.runs.fit import fit_all
from cerp.runs.fitted_model import FittedModel
from golden_fields import GOLDEN_FIELDS
from golden_model import GOLDEN, GOLDEN_CODED, golden_model
from small_models import small_model


def inspect(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cerp.cli", "inspect", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_json_has_sections_that_add_up_to_the_file():
    result = inspect(str(GOLDEN), "--json")
    found = json.loads(result.stdout)
    assert result.stderr == ""
    assert sum(found["sections"].values()) == found["total_bytes"] == GOLDEN.stat().st_size
    # Four bits for each of 4 + 12 values, two bytes of scale for each of 3 + 3 rows.
    assert found["sections"]["codebook values"] == 8
    assert found["sections"]["scales"] == 12
    assert found["full_table_bytes"] == 5 * 4 * 4
    assert found["facts"] == golden_model().facts


def test_the_table_shows_every_section_and_the_total():
    result = inspect(str(GOLDEN))
    assert result.returncode == 0
    lines = {line.split("  ")[0]: line for line in result.stdout.splitlines()}
    for name, size in artifact.section_bytes(GOLDEN.read_bytes()).items():
        assert f" {size:,} " in lines[name]
    assert f" {GOLDEN.stat().st_size:,} " in lines["total"]
    assert "full table, fp32" in lines
    assert "method cerp" in result.stderr


def test_learned_codes_are_a_section_and_codebooks_are_counted():
    found = json.loads(inspect(str(GOLDEN_CODED), "--json").stdout)
    assert sum(found["sections"].values()) == found["total_bytes"] == GOLDEN_CODED.stat().st_size
    deflated = len(load(GOLDEN_CODED.read_bytes())["embedding.1.codes"])
    assert found["sections"]["codes"] == 152 * 2 // 8 + deflated
    assert found["embedding_bytes"] == found["sections"]["codes"] + sum(
        found["sections"][name] for name in ("codebook values", "positions", "scales")
    )
    assert (found["codebooks"], found["assignment"]) == (2, "learned")
    shown = inspect(str(GOLDEN_CODED)).stdout
    assert re.search(r"^codes +\d+ ", shown, re.MULTILINE)
    assert re.search("codebooks +2", shown)
    assert re.search("rows chosen by +learned codes", shown)


def test_codebooks_of_a_hash_are_counted_too_and_one_table_is_none(tmp_path: Path):
    found = json.loads(inspect(str(GOLDEN), "--json").stdout)
    assert (found["codebooks"], found["assignment"]) == (2, "hash")
    table = Table(Index("identity"), np.ones((65, 2), np.float32))
    one = replace(small_model(), embedding=ComposedEmbedding((table,)))
    artifact.write(tmp_path / "one.cerp", one, artifact.Encoding())
    found = json.loads(inspect(str(tmp_path / "one.cerp"), "--json").stdout)
    assert (found["codebooks"], found["assignment"]) == (None, None)
    assert "codebooks" not in inspect(str(tmp_path / "one.cerp")).stdout


def test_ordinary_output_names_the_precision_and_keeps_research_for_verbose():
    plain, verbose = inspect(str(GOLDEN)).stdout, inspect(str(GOLDEN), "--verbose").stdout
    assert re.search("precision of values +int4", plain)
    for word in ("sparsity", "average dimension", "overlap", "dead rows", "empty rows"):
        assert word not in plain
        assert word in verbose
    assert set(plain.splitlines()) <= set(verbose.splitlines())


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and more", GOLDEN.read_bytes()[:-1]])
def test_a_file_that_is_no_model_gives_an_error_and_exit_code_2(tmp_path: Path, content: bytes):
    (tmp_path / "bad.cerp").write_bytes(content)
    result = inspect(str(tmp_path / "bad.cerp"), "--json")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {tmp_path / 'bad.cerp'}: ")


def test_a_folder_is_answered_with_the_model_files_in_it(tmp_path: Path):
    (tmp_path / "model-99pct.cerp").write_bytes(GOLDEN.read_bytes())
    result = inspect(str(tmp_path))
    assert result.returncode == 2
    assert (
        f"is a folder; name a model file (.cerp): {tmp_path / 'model-99pct.cerp'}" in result.stderr
    )


def test_a_missing_file_is_named():
    result = inspect("nowhere.cerp")
    assert result.returncode == 2
    assert result.stderr == (
        "error: cannot read nowhere.cerp: No such file or directory; name a model file (.cerp), "
        "such as a finished run has in its folder\n"
    )


@pytest.fixture(scope="module")
def rounded() -> FittedModel:
    """Trained under a limit on bytes, in int4: some of its values are rounded to zero."""
    config = Config(
        backbone="mf",
        budgets=("1500B",),
        value_precision="int4",
        dim=16,
        ordering="degree",
        prune=PruneConfig(epochs=1, batch_size=256),
        train=TrainConfig(epochs=1, evaluate_every=1, batch_size=256, learning_rate=1e-2),
    )
    return fit_all(synthetic(120, 80, 1500).split(seed=0), config, RunOptions(quiet=True))[0]


def test_a_model_is_counted_alike_where_it_is_trained_and_in_its_file(
    rounded: FittedModel, tmp_path: Path
):
    rounded.save(tmp_path / "model.cerp")
    file = artifact.read(tmp_path / "model.cerp")
    assert isinstance(file.embedding, ComposedEmbedding)
    zeros = sum(int((table.stored & (table.weight == 0)).sum()) for table in file.embedding.tables)
    assert zeros > 0
    found, facts = json.loads(inspect(str(tmp_path / "model.cerp"), "--json").stdout), rounded.facts
    assert found["stored_values"] == facts.nnz == facts.stored_count == facts.paper_count
    assert found["average_dimension"] == facts.avg_dim
    assert found["overlap"] == facts.overlap
    assert found["empty_entities"] == facts.empty_entities
    assert found["empty_rows"] == facts.empty_rows
    assert facts.nnz <= rounded.limit


def test_fields_of_a_file_for_lookups_are_listed():
    found = inspect(str(GOLDEN_FIELDS))
    assert found.returncode == 0
    lines = [line.split() for line in found.stdout.splitlines()]
    assert ["country", "2", "stored", "whole"] in lines
    assert ["item", "3", "composed"] in lines
    assert ["vectors", "with", "three", "values", "or", "fewer", "5"] in lines  # of those composed
    assert "users" not in found.stdout
    told = json.loads(inspect(str(GOLDEN_FIELDS), "--json").stdout)
    assert told["full_table_bytes"] == 7 * 2 * 4
    assert told["stored_values"] == 12
    assert told["fields"][1] == {"name": "country", "ids": 2, "is_whole": True}
