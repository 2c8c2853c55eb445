"""Files with a graph filter: what is written is what is read, and what cannot be is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from campaigns.forging import with_right_checksum
from cerp import artifact
from cerp.artifact import Encoding, FilterTerm, Mixing, ShippedModel, section_bytes
from cerp.artifact.container import pack, unpack
from cerp.errors import ConfigError, MalformedFileError
from cerp.graph.filter import Exponents
from cerp.graph.sharpening import Sharpening
from golden_filter import (
    FILTER,
    MIXTURE,
    SHARP_FILTER,
    filter_model,
    mixture_model,
    sharp_filter_model,
)
from golden_model import ENCODING
from small_models import small_model

MODELS = {
    FILTER: (filter_model, Encoding()),
    SHARP_FILTER: (sharp_filter_model, Encoding()),
    MIXTURE: (mixture_model, ENCODING),
}


SHARP_TERM = FilterTerm(Exponents(1, 0.5, 0.25), Mixing(2.5, 0.01), Sharpening(0.5, 0.3, 2))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_the_golden_files_are_written_to_the_byte_and_read_back(path):
    make, encoding = MODELS[path]
    assert artifact.encode(make(), encoding) == path.read_bytes()
    found, wanted = artifact.read(path), make()
    assert (found.filter, found.head, found.layers) == (wanted.filter, wanted.head, wanted.layers)
    assert (found.embedding is None) == (wanted.embedding is None)
    assert found.seen.items.tolist() == wanted.seen.items.tolist()


def test_a_filter_file_is_its_graph_and_a_header():
    sections = section_bytes(FILTER.read_bytes())
    assert list(sections) == ["graph", "ids", "header"]
    assert sum(sections.values()) == len(FILTER.read_bytes())
    assert artifact.embedding_bytes(sections) == 0


def test_the_interactions_of_a_mixture_are_a_graph_whatever_its_vectors():
    mixed = replace(small_model("mf"), filter=mixture_model().filter)
    assert "graph" in section_bytes(artifact.encode(mixed, Encoding()))
    assert "seen" in section_bytes(artifact.encode(small_model("mf"), Encoding()))


def test_a_mixture_has_one_copy_of_the_edges():
    plain = small_model("lightgcn")
    sizes = [
        section_bytes(artifact.encode(model, Encoding()))
        for model in (plain, replace(plain, filter=mixture_model().filter))
    ]
    assert sizes[0].keys() == sizes[1].keys()
    differing = [name for name in sizes[0] if sizes[0][name] != sizes[1][name]]
    assert differing == ["header"]


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (filter_model(), "filter"),
        (mixture_model(), "lightgcn+filter"),
        (replace(small_model("mlp"), filter=mixture_model().filter), "mlp+filter"),
        (sharp_filter_model(), "sharp-filter"),
        (replace(mixture_model(), filter=SHARP_TERM), "lightgcn+sharp-filter"),
        (replace(small_model("mf"), filter=SHARP_TERM), "mf+sharp-filter"),
    ],
)
def test_a_reader_that_knows_no_filter_meets_a_word_that_it_does_not_know(
    model: ShippedModel, word: str
):
    data = artifact.encode(model, Encoding())
    assert artifact.decode(data).filter == model.filter
    assert unpack(data).metadata["backbone"] == word
    assert artifact.backbone_name(artifact.decode(data)) == word


def test_a_filter_without_vectors_stores_no_value():
    assert artifact.usage(filter_model()).stored_values == 0
    assert filter_model().dim == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seen": None}, "the filter needs its graph"),
        ({"filter": None}, "neither vectors nor a filter"),
        ({"filter": mixture_model().filter}, "that of others has none"),
        ({"head": "dot"}, "a head needs vectors"),
    ],
)
def test_a_filter_that_cannot_rank_is_not_written(change: dict[str, Any], reason: str):
    with pytest.raises(ConfigError, match=reason):
        artifact.encode(replace(filter_model(), **change), Encoding())


def test_vectors_need_to_know_how_much_the_filter_counts():
    model = replace(mixture_model(), filter=FilterTerm(Exponents(1, 1, 1)))
    with pytest.raises(ConfigError, match="beta and epsilon"):
        artifact.encode(model, Encoding())


def test_a_filter_cannot_leave_out_what_users_have_seen():
    with pytest.raises(ConfigError, match="the filter needs its graph"):
        artifact.encode(filter_model(), Encoding(seen=False))


@pytest.mark.parametrize(("beta", "epsilon"), [(-1, 0.1), (1e7, 0.1), (1, 0), (1, 2), (1, 1e-13)])
def test_a_mixture_has_bounds(beta: float, epsilon: float):
    with pytest.raises(ConfigError, match="a mixture needs beta"):
        Mixing(beta, epsilon)


def forged(path: Any, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A golden file with changed metadata and a checksum that fits."""
    content = unpack(path.read_bytes())
    change(content.metadata)
    return pack(content.metadata, content.tensors)


@pytest.mark.parametrize(
    ("path", "change", "reason"),
    [
        (FILTER, lambda meta: meta.pop("filter"), "the filter is missing"),
        (MIXTURE, lambda meta: meta.pop("filter"), "the filter is missing"),
        (MIXTURE, lambda meta: meta.update(backbone="lightgcn"), "the filter is there"),
        (FILTER, lambda meta: meta.update(backbone="mf"), "the filter is there"),
        (FILTER, lambda meta: meta.update(backbone="mf+filter"), "a head needs vectors"),
        (FILTER, lambda meta: meta.update(layers=2), "goes with 0 layers"),
        (FILTER, lambda meta: meta["filter"].update(q=65), "from 0 to 64"),
        (FILTER, lambda meta: meta["filter"].update(p=-1), "from 0 to 64"),
        (FILTER, lambda meta: meta["filter"].update(r=0.5), "from 0 to 64"),
        (FILTER, lambda meta: meta["filter"].update(r=True), "from 0 to 64"),
        (FILTER, lambda meta: meta["filter"].pop("q"), "from 0 to 64"),
        (FILTER, lambda meta: meta["filter"].update(beta=1.0), "filter.epsilon must be a number"),
        (FILTER, lambda meta: meta["filter"].update(beta=1.0, epsilon=1.0), "others has none"),
        (MIXTURE, lambda meta: meta["filter"].update(beta=-1), "filter.beta must be a number"),
        (MIXTURE, lambda meta: meta["filter"].update(beta=True), "filter.beta must be a number"),
        (MIXTURE, lambda meta: meta["filter"].update(beta=1e300), "filter.beta must be a number"),
        (MIXTURE, lambda meta: meta["filter"].update(beta=None), "beta and epsilon"),
        (MIXTURE, lambda meta: meta["filter"].update(epsilon=0), "filter.epsilon must be a number"),
        (MIXTURE, lambda meta: meta["filter"].update(epsilon="1"), "filter.epsilon must be"),
        (FILTER, lambda meta: meta.update(filter=[1]), "is not an object"),
        (FILTER, lambda meta: meta.update(backbone="sharp-filter"), "the filter is not sharpened"),
        (SHARP_FILTER, lambda meta: meta.update(backbone="filter"), "the filter is sharpened"),
        (SHARP_FILTER, lambda meta: meta["filter"].pop("m"), "the filter is not sharpened"),
        (SHARP_FILTER, lambda meta: meta["filter"].update(m=65), "from 0 to 64"),
        (SHARP_FILTER, lambda meta: meta["filter"].update(m=0.5), "from 0 to 64"),
        (
            SHARP_FILTER,
            lambda meta: meta["filter"].update(strength=-1),
            "strength must be a number",
        ),
        (SHARP_FILTER, lambda meta: meta["filter"].update(strength=1e9), "strength must be"),
        (SHARP_FILTER, lambda meta: meta["filter"].update(strength=None), "strength must be"),
        (SHARP_FILTER, lambda meta: meta["filter"].update(times=3), "from 1 to 2"),
        (SHARP_FILTER, lambda meta: meta["filter"].pop("times"), "from 1 to 2"),
        (MIXTURE, lambda meta: meta.update(embedding=None), "nothing says what the tensor"),
    ],
)
def test_a_forged_filter_is_refused_by_name(path, change, reason: str):
    with pytest.raises(MalformedFileError, match=reason):
        artifact.decode(forged(path, change))


def test_numbers_that_are_not_finite_are_refused():
    text = b'"beta\\":2.5'
    data = MIXTURE.read_bytes()
    assert text in data
    with pytest.raises(MalformedFileError):
        artifact.decode(with_right_checksum(data.replace(text, b'"beta\\":NaN')))
