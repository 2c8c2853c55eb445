"""`cerp inspect` and the counts it shows."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Index, ShippedModel, Table, usage
from cerp.data.ids import Ids
from cerp.models.embeddings.diagnostics import diagnose
from golden_model import GOLDEN, golden_model
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


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and more", GOLDEN.read_bytes()[:-1]])
def test_a_file_that_is_no_model_gives_an_error_and_exit_code_2(tmp_path: Path, content: bytes):
    (tmp_path / "bad.cerp").write_bytes(content)
    result = inspect(str(tmp_path / "bad.cerp"), "--json")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {tmp_path / 'bad.cerp'}: ")


def test_a_folder_is_answered_with_the_model_files_in_it(tmp_path: Path):
    (tmp_path / "model-99%.cerp").write_bytes(GOLDEN.read_bytes())
    result = inspect(str(tmp_path))
    assert result.returncode == 2
    assert f"is a folder; name a model file (.cerp): {tmp_path / 'model-99%.cerp'}" in result.stderr


def test_a_missing_file_is_named():
    result = inspect("nowhere.cerp")
    assert result.returncode == 2
    assert result.stderr == (
        "error: cannot read nowhere.cerp: No such file or directory; name a model file (.cerp), "
        "such as 'cerp train -o' leaves in its folder\n"
    )


def test_usage_of_the_golden_model():
    # Positions 0..4 have the rows 0 1 2 0 1 of P, which store 3 0 1 3 0 of four values, and the
    # rows 0 0 1 1 2 of Q, which store all four.
    found = usage(golden_model())
    assert found.stored_values == 16
    assert found.sparsity == pytest.approx(1 - 16 / 20)
    assert found.average_dimension == 4
    assert found.overlap == pytest.approx((3 + 0 + 1 + 3 + 0) / (5 * 4))
    assert (found.empty_entities, found.dead_rows, found.empty_rows) == (0, 0, 1)


def two_codebooks(seed: int, quotient: bool) -> ShippedModel:
    """100 entities in twice 12 rows; divided by 10, not scaled, they leave two rows unused."""
    rng = np.random.default_rng(seed)
    masks = rng.random((2, 12, 8)) < rng.choice([0.02, 0.2, 0.7])
    indices = Index("modulo", 12), Index("quotient", 10) if quotient else Index("scaled", 12)
    tables = [Table(i, m.astype(np.float32), m) for i, m in zip(indices, masks, strict=True)]
    return replace(
        small_model("mf"),
        users=Ids.range(40),
        items=Ids.range(60),
        embedding=ComposedEmbedding(tuple(tables)),
    )


@pytest.mark.parametrize("quotient", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_usage_of_two_codebooks_is_what_training_reports(seed: int, quotient: bool):
    model = two_codebooks(seed, quotient)
    p, q = model.embedding.tables
    positions = np.arange(100)
    rows = p.index.rows(positions, 100), 12 + q.index.rows(positions, 100)
    expected = diagnose(
        torch.from_numpy(np.concatenate([p.mask, q.mask])),
        [(torch.from_numpy(rows[0]), torch.from_numpy(rows[1]))],
        sparsity=1 - (p.mask.sum() + q.mask.sum()) / 800,
    )
    found = usage(model)
    assert (found.stored_values, found.sparsity) == (expected.nnz, expected.sparsity)
    assert found.average_dimension == pytest.approx(expected.average_dimension)
    assert found.overlap == pytest.approx(expected.overlap)
    assert found.empty_entities == expected.empty_entities
    assert found.dead_rows == expected.unreached_rows
    assert found.empty_rows == expected.empty_rows


def test_usage_of_products_concatenations_and_propagated_tables():
    tables = golden_model().embedding.tables
    product = replace(golden_model(), embedding=ComposedEmbedding(tables, "product"))
    # A factor that is not there makes a place zero: what P stores, entity by entity.
    assert usage(product).average_dimension == pytest.approx((3 + 0 + 1 + 3 + 0) / 5)
    assert usage(product).empty_entities == 2
    concat = replace(golden_model(), embedding=ComposedEmbedding(tables, "concat"))
    assert usage(concat).average_dimension == pytest.approx(4 + 7 / 5)
    assert usage(concat).overlap is None
    assert usage(small_model("propagated")).average_dimension == 12
