"""Files of vectors that are summed over histories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cerp import artifact
from cerp.artifact import Encoding, PropagatedTables, ShippedModel, Tastes
from cerp.artifact.container import unpack
from cerp.artifact.model import LeastSquares
from cerp.data.ids import Ids
from cerp.errors import ConfigError, MalformedFileError
from cerp.graph.history_sums import HistorySums
from forged_neighbours import Change
from forged_sums import FORGED_MIXTURES, FORGED_SUMS, forged_mixture, forged_sums
from golden_filter import filter_model
from golden_sums import SUMS, SUMS_MIXTURE, sums_mixture_model, sums_model
from small_models import small_model


def test_the_golden_file_is_written_and_read_as_it_was():
    assert artifact.encode(sums_model(), Encoding("fp16")) == SUMS.read_bytes()
    found, wanted = artifact.read(SUMS), sums_model()
    assert found.sums.exponent == wanted.sums.exponent
    assert found.sums.popularity.tolist() == wanted.sums.popularity.tolist()
    assert (found.is_item_only, found.titles) == (True, wanted.titles)
    everyone = np.arange(4, dtype=np.int32)
    assert found.embedding.vectors(everyone, 4).tolist() == [[1, 0], [0, 2], [1, 0], [0.5, 2.5]]


def test_the_golden_mixture_is_written_and_read_as_it_was():
    assert artifact.encode(sums_mixture_model(), Encoding("fp16")) == SUMS_MIXTURE.read_bytes()
    found, wanted = artifact.read(SUMS_MIXTURE), sums_mixture_model()
    assert (found.filter, found.sums.exponent) == (wanted.filter, 0.5)
    # By the graph, in which the items have 1, 2, 2 and 0 takers: ⌊8 log2(1 + d)⌋.
    assert found.sums.popularity.tolist() == [8, 12, 12, 0]
    assert (found.is_item_only, found.num_composed, found.num_vectors) == (False, 4, 8)
    everyone = np.arange(4, dtype=np.int32)
    assert found.embedding.vectors(everyone, 4).tolist() == [[1, 0], [0, 2], [1, 0], [0.5, 2.5]]


@pytest.mark.parametrize(("path", "graph"), [(SUMS, "popularity"), (SUMS_MIXTURE, "graph")])
def test_every_byte_of_it_is_counted(path: Path, graph: str):
    data = path.read_bytes()
    sections = artifact.section_bytes(data)
    assert sum(sections.values()) == len(data)
    assert {"popularity", "graph"} & sections.keys() == {graph}
    assert artifact.usage(artifact.decode(data)).stored_values == 8


@pytest.mark.parametrize(("path", "word"), [(SUMS, "sums"), (SUMS_MIXTURE, "sums+sharp-filter")])
def test_a_reader_that_knows_no_sums_meets_a_word_that_it_does_not_know(path: Path, word: str):
    assert unpack(path.read_bytes()).metadata["backbone"] == word
    assert artifact.backbone_name(artifact.read(path)) == word


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (replace(sums_model(), users=small_model().users), "need no users|do not give"),
        (replace(small_model(), sums=sums_model().sums), "need no users"),
        (replace(sums_model(), sums=None), "0 users and 4 items"),
        (replace(sums_model(), sums=HistorySums(0, np.ones(3, np.uint8))), "other than 4 items"),
        (replace(sums_model(), folding=LeastSquares(1, 1)), "there is more beside them"),
        (
            replace(sums_model(), tastes=Tastes(np.zeros(2, np.float32), np.ones(2, np.float32))),
            "there is more beside them",
        ),
        (replace(sums_model(), seen=filter_model().seen), "need no users"),
        (replace(sums_mixture_model(), filter=None), "need no users"),
        (replace(sums_mixture_model(), seen=None), "the filter needs its graph"),
        (replace(sums_mixture_model(), users=Ids.range(0)), "0 users and 4 items"),
        (replace(sums_mixture_model(), positions=np.arange(8)), "need no order"),
        (replace(sums_mixture_model(), layers=2), "of vectors as they are stored"),
        (replace(sums_mixture_model(), sums=sums_model().sums), "another popularity"),
        (
            replace(
                sums_model(),
                embedding=PropagatedTables(np.zeros((0, 2), np.float32), np.ones((4, 2), "f4")),
            ),
            "of vectors as they are stored",
        ),
    ],
)
def test_sums_that_cannot_rank_are_not_written(model: ShippedModel, reason: str):
    with pytest.raises(ConfigError, match=reason):
        artifact.encode(model, Encoding())


@pytest.mark.parametrize(("change", "reason"), FORGED_SUMS)
def test_forged_sums_are_refused_by_name(change: Change, reason: str):
    with pytest.raises(MalformedFileError, match=reason):
        artifact.decode(forged_sums(change))


@pytest.mark.parametrize(("change", "reason"), FORGED_MIXTURES)
def test_forged_mixtures_of_sums_are_refused_by_name(change: Change, reason: str):
    with pytest.raises(MalformedFileError, match=reason):
        artifact.decode(forged_mixture(change))
