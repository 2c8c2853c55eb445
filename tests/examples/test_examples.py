"""The examples run, in short form, and keep to their budgets."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from examples.ctr import tables
from examples.ctr.clicks import criteo_shaped
from examples.ctr.compare import NETWORKS, compare
from examples.ctr.training import auc, log_loss, taught_by
from examples.measured import add_rows
from examples.sequences.compare import compare as compare_sequences
from examples.sequences.histories import Histories, histories, last, windows
from examples.sequences.sasrec import SASRec, ndcg
from examples.two_towers.towers import compare as compare_towers


def test_auc_is_the_share_of_pairs_in_order():
    labels = np.array([1, 1, 0, 0], dtype=np.float32)
    scores = np.array([3, 1, 2, 1], dtype=np.float32)
    assert auc(labels, scores) == (1 + 1 + 0 + 0.5) / 4
    assert log_loss(labels[:1], np.zeros(1, dtype=np.float32)) == pytest.approx(np.log(2))


def test_a_model_teaches_its_probabilities_of_training_rows_alone():
    class Sure(nn.Linear):
        def forward(self, ids):
            return torch.full((len(ids),), float(np.log(3)))  # odds of three to one

    clicks = criteo_shaped(largest=100, rows=200)
    taught = taught_by(Sure(1, 1), clicks)
    np.testing.assert_allclose(taught.train.labels, np.full(len(clicks.train), 0.75), rtol=1e-6)
    assert taught.train.ids is clicks.train.ids
    assert taught.validation is clicks.validation
    assert taught.test is clicks.test


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_a_rounded_table_has_as_many_values_as_its_bits_say(bits: int):
    torch.manual_seed(0)
    table = tables.full({"user": 50}, 16)
    rounded, size = tables.rounded(table, bits)
    before, after = table.table.weight.detach(), rounded.table.weight.detach()
    assert max(len(row.unique()) for row in after) <= 2**bits
    assert (before - after).square().mean() < before.square().mean() * {8: 1e-3, 4: 0.05, 2: 0.5}[
        bits
    ]
    assert size == 50 * 16 * bits // 8 + 50 * 2


@pytest.mark.parametrize("network", NETWORKS)
def test_click_models_are_compared_within_their_budgets(network: str):
    clicks = criteo_shaped(largest=100, rows=1500)
    rows = compare(clicks, network, ["90%"], epochs=1, rates=(3e-3,))
    assert [row["method"] for row in rows] == [
        "full", "int8", "int4", "int2", "cerp", "ud", "hash", "qr", "pep",
    ]  # fmt: skip
    most = 0.1 * rows[0]["values"]
    assert all(row["values"] <= most for row in rows if row["budget"])


def made_up_histories() -> Histories:
    """Users of three groups, who take items of their group."""
    users = np.repeat(np.arange(60), 12)
    items = users % 3 * 10 + np.random.default_rng(0).integers(0, 10, len(users))
    return histories("made-up", users, items)


def test_windows_are_padded_in_front():
    sequences = [np.arange(1, 6), np.array([7])]
    assert windows(sequences, 3).tolist() == [[3, 4, 5], [0, 1, 2], [0, 0, 7]]
    assert last(sequences, 3).tolist() == [[3, 4, 5], [0, 0, 7]]


def test_a_state_does_not_look_ahead():
    torch.manual_seed(0)
    model = SASRec(nn.Embedding(10, 8), lambda items: items.weight, 8, 4).eval()
    first, second = model(torch.tensor([[0, 1, 2, 3], [0, 1, 2, 9]]))
    torch.testing.assert_close(first[:3], second[:3])
    assert not torch.allclose(first[3], second[3])


def test_ndcg_is_that_of_the_rank_among_what_was_not_seen():
    class Known(nn.Module):
        length = 2

        def forward(self, ids):
            return torch.ones(*ids.shape, 1)

        def table(self):
            return torch.tensor([[9.0], [5.0], [4.0], [3.0], [2.0]])

    data = Histories("made-up", 4, [np.array([1, 4, 3])])
    # 1 and 4 were seen, 0 is the padding: 2 is before 3, so that 3 has rank 2.
    assert ndcg(Known(), data, held=0) == pytest.approx(1 / np.log2(3))


def test_sequence_models_are_compared_within_their_budgets():
    rows = compare_sequences(
        made_up_histories(), ["90%"], length=8, epochs=2, from_sequences=["80%"]
    )
    assert [row["method"] for row in rows] == ["full", "cerp", "cerp from sequences"]
    assert rows[1]["values"] <= 0.1 * rows[0]["values"]
    assert rows[2]["values"] <= 0.2 * rows[0]["values"]


def test_two_towers_are_compared_within_their_budgets():
    full, compact = compare_towers(made_up_histories(), ["90%"], epochs=8)
    assert compact["values"] <= 0.1 * full["values"]
    assert full["validation"]["ndcg@10"] > 0.2  # far better than 30 items at random
    assert compact["validation"]["ndcg@10"] > 0.8 * full["validation"]["ndcg@10"]


def test_new_rows_take_the_place_of_old_ones(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["x", "frappe", "-o", "a.json"])
    path = tmp_path / "a.json"
    for value in (1, 2):
        add_rows(path, [{"data": "frappe", "value": value}], "examples.x", ["data"])
        add_rows(path, [{"data": "other", "value": 0}], "examples.x", ["data"])
    found = json.loads(path.read_text())["rows"]
    assert [(row["data"], row["value"]) for row in found] == [("frappe", 2), ("other", 0)]
    assert found[0]["command"] == "python -m examples.x frappe -o a.json"
