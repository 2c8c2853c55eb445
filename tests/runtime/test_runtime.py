from __future__ import annotations

import math
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cerp
from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, Seen, ShippedModel, Table
from cerp.config import Config, RunOptions, TrainConfig
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError, ScoreError
from cerp.models import backbones
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.runs.fit import fit_all
from cerp.runtime import Runtime, recommending
from cerp.runtime.folding import FoldIn
from cerp.runtime.propagation import propagate
from cerp.runtime.scoring import DotHead, Excluded
from cerp.runtime.selection import contenders, product_error
from small_models import BACKBONES, small_model


def factors(
    users: list[list[float]], items: list[list[float]], seen: list[list[int]] | None = None
) -> ShippedModel:
    """Matrix factorisation with these vectors; users are 'u0', 'u1', ..., items 0, 10, 20, ..."""
    weight = np.array(users + items, dtype=np.float32)
    return ShippedModel(
        facts={},
        users=Ids([f"u{code}" for code in range(len(users))]),
        items=Ids(10 * np.arange(len(items))),
        head="dot",
        embedding=ComposedEmbedding((Table(Index("identity"), weight),)),
        seen=None if seen is None else seen_of(seen),
    )


def seen_of(rows: list[list[int]]) -> Seen:
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Seen(offsets, np.array([item for row in rows for item in row], dtype=np.int32))


def shipped(
    recommender: Recommender, splits: Splits, backbone: str, *tables: Table
) -> ShippedModel:
    """A torch model as plain arrays; ``tables`` in the place of the full one."""
    embedding = recommender.embedding
    full = Table(Index("identity"), embedding.table().detach().numpy())
    positions = embedding.positions.numpy() if tables else None
    tower = recommender.backbone.state_dict() if backbone == "mlp" else {}
    return ShippedModel(
        facts={},
        users=splits.users,
        items=splits.items,
        head="tower" if tower else "dot",
        embedding=ComposedEmbedding(tables or (full,)),
        positions=positions,
        layers=3 if backbone == "lightgcn" else 0,
        weights={name: tensor.numpy() for name, tensor in tower.items()},
        seen=Seen(splits.train.user_offsets, splits.train.item),
    )


def held_out_users(data: Interactions, share: float) -> tuple[Splits, Splits]:
    """Known and new users over the same items, each split in the same way."""
    is_new = np.random.default_rng(0).random(data.num_users) < share
    parts = []
    for chosen in (~is_new, is_new):
        kept = chosen[data.user]
        parts.append(
            Interactions.from_codes(
                (np.cumsum(chosen) - 1)[data.user[kept]],
                data.item[kept],
                users=Ids(data.users.values[chosen]),
                items=data.items,
            ).split(seed=0)
        )
    return parts[0], parts[1]


class FoldedIn:
    """Judged by the lists that it gives from what users are known to like."""

    def __init__(self, runtime: Runtime, liked: Interactions) -> None:
        self.runtime, self.liked = runtime, liked

    def score_all(self, users: np.ndarray) -> np.ndarray:
        scores = np.full((len(users), self.liked.num_items), -np.inf)
        for row, user in zip(scores, users.tolist(), strict=True):
            start, end = self.liked.user_offsets[user : user + 2]
            found = self.runtime.recommend_for(self.liked.items.decode(self.liked.item[start:end]))
            row[self.liked.items.encode([place.item for place in found])] = range(10, 0, -1)
        return scores


def by_definition(queries: np.ndarray, items: np.ndarray, k: int) -> list[list[int]]:
    """Rank by the rule, one number at a time: exact sums, rounded, ties by code."""
    result = []
    for query in queries.tolist():
        scores = [
            float(np.float32(math.fsum(a * b for a, b in zip(query, item, strict=True))))
            for item in items.tolist()
        ]
        result.append(sorted(range(len(items)), key=lambda code: (-scores[code], code))[:k])
    return result


NOTHING = Excluded(*np.empty((3, 0), dtype=np.int32))


# u0 likes the first direction, u1 the second; scores of u0 are the first coordinates.
PLAIN = factors([[1, 0], [0, 1], [1, 1]], [[3, 1], [1, 5], [2, 0], [3, 4]], seen=[[0], [1, 3], [2]])


def test_lists_are_best_first_and_leave_out_what_was_seen():
    assert Runtime(PLAIN).recommend("u0", k=2) == [(30, 3.0), (20, 2.0)]


def test_equal_scores_rank_in_native_item_order():
    found = Runtime(PLAIN).recommend("u0", exclude_seen=False)
    assert [place.item for place in found] == [0, 30, 20, 10]


def test_a_list_is_shorter_when_fewer_items_are_left():
    assert [place.item for place in Runtime(PLAIN).recommend("u1", k=10)] == [0, 20]


def test_excluded_items_are_left_out_for_everyone():
    lists = Runtime(PLAIN).recommend_many(["u1", "u0"], exclude=[20])
    assert [[place.item for place in found] for found in lists] == [[0], [30, 10]]


def test_excluding_for_many_users_takes_no_memory_for_each_of_them():
    runtime = Runtime(PLAIN)
    tracemalloc.start()
    try:
        lists = runtime.recommend_many(["u0"] * 1024, k=1, exclude=[30] * 10_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lists == [[(20, 2.0)]] * 1024
    # 10,000 for each of 1,024 users are 82 MB, as 8-byte numbers.
    assert peak < 2e6


@pytest.mark.parametrize("backbone", BACKBONES)
def test_items_excluded_twice_and_seen_items_too_are_left_out(backbone: str):
    runtime = Runtime(small_model(backbone))
    users, items = runtime.users.values.tolist()[:20], runtime.items.values.tolist()
    banned = [*items[::2], *items[::3]]
    for user, found in zip(
        users, runtime.recommend_many(users, 40, exclude=banned, unseen_items=True), strict=True
    ):
        assert {p.item for p in found} == set(items) - set(banned) - set(runtime.seen(user))


def test_candidates_are_all_that_is_chosen_from():
    runtime = Runtime(PLAIN)
    assert [p.item for p in runtime.recommend("u0", candidates=[20, 10, 0, 10])] == [20, 10]
    assert [p.item for p in runtime.recommend("u0", candidates=[20, 10], exclude=[20])] == [10]
    assert runtime.recommend("u0", candidates=[20], exclude=[20]) == []


def test_no_users_give_no_lists():
    assert Runtime(PLAIN).recommend_many([]) == []


def test_scores_come_in_the_order_asked_for():
    assert Runtime(PLAIN).score("u1", [30, 0]).tolist() == [4.0, 1.0]


def test_seen_items_are_those_of_training():
    assert Runtime(PLAIN).seen("u1") == [10, 30]


def test_similar_items_are_ranked_by_cosine():
    # cos of (3,1) with (1,5), (2,0), (3,4): 8/√260, 6/√40, 13/√250.
    found = Runtime(PLAIN).similar_items(0)
    assert [place.item for place in found] == [20, 30, 10]
    expected = [6 / math.sqrt(40), 13 / math.sqrt(250), 8 / math.sqrt(260)]
    assert [place.score for place in found] == pytest.approx(expected, rel=1e-7)


def test_a_vector_of_zeros_is_similar_to_nothing():
    runtime = Runtime(factors([[1, 0]], [[0, 0], [1, 0], [-1, 0]]))
    assert runtime.similar_items(0) == [(10, 0.0), (20, 0.0)]
    assert runtime.similar_items(10) == [(0, 0.0), (20, -1.0)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda runtime: runtime.recommend("u7"), DataError, "unknown user 'u7'"),
        (lambda runtime: runtime.recommend("u0", k=0), ConfigError, "k of at least 1"),
        (lambda runtime: runtime.recommend_many([], k=0), ConfigError, "k of at least 1"),
        (lambda runtime: runtime.recommend("u0", exclude=[5]), DataError, "unknown item 5"),
        (lambda runtime: runtime.recommend("u0", candidates=["x"]), DataError, "unknown item 'x'"),
    ],
)
def test_bad_requests_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call(Runtime(PLAIN))


def test_a_model_that_does_not_say_what_was_seen_says_so_when_that_matters():
    runtime = Runtime(replace(PLAIN, seen=None))
    with pytest.raises(ConfigError, match="exclude_seen=False"):
        runtime.recommend("u0")
    assert runtime.recommend("u0", k=1, exclude_seen=False) == [(0, 3.0)]


def test_vectors_that_are_not_numbers_are_refused():
    with pytest.raises(ScoreError, match="not finite"):
        Runtime(factors([[1.0]], [[math.nan]]))
    with pytest.raises(ScoreError, match="not finite"):
        Runtime(factors([[math.inf]], [[1.0]])).recommend("u0", exclude_seen=False)


def test_lightgcn_without_graph_or_tables_is_refused():
    with pytest.raises(DataError, match="needs its graph"):
        Runtime(replace(small_model("lightgcn"), seen=None))


# --- the rule: float64, rounded once; ties by code --------------------------------------------


def test_a_sum_that_cancels_in_float32_is_ranked_by_its_exact_value():
    # In float32, 1e8 + 1 - 1e8 is 0: the second item would come first.
    runtime = Runtime(factors([[1, 1, 1]], [[1e8, 1, -1e8], [0, 0.5, 0]]))
    assert runtime.recommend("u0", k=1, exclude_seen=False) == [(0, 1.0)]


@given(seed=st.integers(0, 2**32 - 1), k=st.sampled_from([1, 3, 10]), levels=st.integers(1, 3))
def test_lists_follow_the_definition_among_many_ties(seed: int, k: int, levels: int):
    rng = np.random.default_rng(seed)
    # Few different numbers make equal scores; factors near 1 make scores that nearly are.
    items = rng.integers(-levels, levels + 1, (1500, 5)) * (
        1 + 1e-7 * rng.integers(0, 3, (1500, 1))
    )
    queries = rng.integers(-levels, levels + 1, (3, 5)) / np.float32(3)
    items, queries = items.astype(np.float32), queries.astype(np.float32)
    found = DotHead(items).best(queries, k, NOTHING)
    lists = [found.columns[a:b].tolist() for a, b in zip(found.starts, found.ends, strict=True)]
    assert lists == by_definition(queries, items, k)


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 300))
def test_the_error_of_a_float32_product_stays_within_its_bound(seed: int, dim: int):
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((2, 20, dim)).astype(np.float32)
    exact = (first.astype(np.longdouble) @ second.astype(np.longdouble).T).astype(np.float32)
    norms = [np.linalg.norm(vectors.astype(np.float64), axis=1) for vectors in (first, second)]
    error = np.abs((first @ second.T).astype(np.float64) - exact)
    assert (error <= product_error(dim) * np.outer(*norms)).all()


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 12))
def test_contenders_hold_the_best_of_any_scores_within_the_margin(seed: int, k: int):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 50, (4, 2000)).astype(np.float32)
    margin = np.array([0.0, 0.5, 1.5, 4.0])
    true = scores + rng.uniform(-1, 1, scores.shape) * margin[:, None]
    rows, columns = contenders(scores, k, margin)
    for row in range(4):
        best = np.argsort(-true[row], kind="stable")[:k]
        assert set(best) <= set(columns[rows == row])


def long_in_few_directions(rng: np.random.Generator, *, count: int, dim: int) -> np.ndarray:
    """Vectors whose length in direction j falls with 1/j, like those of trained models."""
    return (rng.standard_normal((count, dim)) / np.arange(1, dim + 1)).astype(np.float32)


@given(seed=st.integers(0, 2**32 - 1), k=st.sampled_from([1, 5, 20]))
def test_lists_by_bounds_follow_the_definition(seed: int, k: int):
    rng = np.random.default_rng(seed)
    items = long_in_few_directions(rng, count=600, dim=16)
    queries = long_in_few_directions(rng, count=2, dim=16)
    scorer = DotHead(items)
    assert scorer.bounds is not None
    found = scorer.best(queries, k, NOTHING)
    lists = [found.columns[a:b].tolist() for a, b in zip(found.starts, found.ends, strict=True)]
    assert lists == by_definition(queries, items, k)


def test_no_score_is_above_its_bound_and_bounds_tell_items_apart():
    rng = np.random.default_rng(0)
    items = long_in_few_directions(rng, count=600, dim=16)
    query = long_in_few_directions(rng, count=1, dim=16)
    bounds = DotHead(items).bounds
    assert bounds is not None
    estimates, slack = bounds.estimates(query, np.linalg.norm(query, axis=1))
    scores = query @ items.T
    assert (np.abs(scores - estimates) <= slack + 1e-6).all()
    assert slack.mean() < scores.std() / 2


def test_vectors_without_leading_directions_have_no_bounds():
    items = np.random.default_rng(0).standard_normal((600, 16)).astype(np.float32)
    assert DotHead(items).bounds is None


def test_what_is_excluded_is_no_contender_even_if_little_else_is_left():
    scores = np.array([[-np.inf, 2.0, -np.inf]], dtype=np.float32)
    assert contenders(scores, 2, np.zeros(1))[1].tolist() == [1]


def test_a_user_of_zeros_gets_the_first_items():
    runtime = Runtime(factors([[0, 0]], [[1, 2]] * 1500, seen=[[0, 2]]))
    assert runtime.recommend("u0", k=2, unseen_items=True) == [(10, 0.0), (30, 0.0)]


@pytest.mark.parametrize("backbone", BACKBONES)
def test_lists_of_a_batch_and_of_candidates_and_one_by_one_are_the_same(
    backbone: str, monkeypatch: pytest.MonkeyPatch
):
    runtime = Runtime(small_model(backbone))
    users = runtime.users.values.tolist()
    monkeypatch.setattr(recommending, "SCORE_BYTES", 4 * len(runtime.items) * 7)
    batch = runtime.recommend_many(users, k=7)
    assert batch == [runtime.recommend(user, k=7) for user in users]
    assert batch == runtime.recommend_many(users, 7, candidates=runtime.items.values.tolist())
    for user, found in zip(users, batch, strict=True):
        scores = runtime.score(user, [place.item for place in found])
        assert scores.tolist() == [place.score for place in found]


@pytest.mark.parametrize("backbone", BACKBONES)
def test_threads_get_what_one_alone_gets(backbone: str):
    model = small_model(backbone)
    users = model.users.values.tolist()

    def ask(runtime: Runtime, user: int) -> object:
        liked = model.items.values[[user % 40, (user + 7) % 40]].tolist()
        folded = None if backbone == "mlp" else runtime.recommend_for(liked)
        return runtime.recommend(user), runtime.similar_items(liked[0]), folded

    alone = [ask(Runtime(model), user) for user in users]
    for _ in range(5):
        shared = Runtime(model)
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(partial(ask, shared), users)) == alone


# --- the same model in torch, and in a file ---------------------------------------------------


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(150, 400, seed=1).split(seed=1)


@pytest.mark.parametrize("backbone", ["mf", "mlp", "lightgcn"])
def test_scores_and_metrics_are_those_of_the_torch_model(backbone: str, splits: Splits):
    generator = torch.Generator().manual_seed(0)
    positions = np.random.default_rng(0).permutation(splits.num_entities)
    embedding = CompositionalEmbedding(
        splits.num_entities, 48, buckets=60, positions=positions, generator=generator
    )
    embedding.mask = torch.rand(embedding.weight.shape, generator=generator) < 0.3
    options = {"layers": 3} if backbone == "lightgcn" else {}
    tower = backbones.create(
        backbone, splits.train, embedding_dim=48, generator=generator, **options
    )
    recommender = Recommender(embedding, tower).eval()
    p, q = (part.detach().numpy() for part in embedding.codebooks(embedding.effective_weight()))
    codebooks = Table(Index("modulo", 60), p), Table(Index("scaled", 60), q)
    runtime = Runtime(shipped(recommender, splits, backbone, *codebooks))
    users = np.arange(splits.num_users, dtype=np.int32)
    expected = recommender.scorer().score_all(users).numpy()
    np.testing.assert_allclose(runtime.score_all(users), expected, rtol=1e-5, atol=1e-6)
    mine, theirs = (cerp.evaluate(model, splits) for model in (runtime, recommender.scorer()))
    for name, values in theirs.per_user.items():
        np.testing.assert_array_equal(mine.per_user[name], values)


@pytest.mark.parametrize(
    ("backbone", "expected"),
    # 40 items: dot products of 12 numbers, or layers from 12 to 6 to 3 to 1.
    [("mf", 40 * 12), ("mlp", 40 * (12 * 6 + 6 * 3 + 3))],
)
def test_what_a_list_costs_is_counted_in_multiplications(backbone: str, expected: int):
    assert Runtime(small_model(backbone)).multiplications == expected


def test_a_loaded_model_does_not_change_with_its_file(tmp_path: Path):
    path, model = tmp_path / "model.cerp", small_model("propagated")
    artifact.write(path, model, artifact.Encoding())
    loaded = cerp.load(path)
    path.write_bytes(artifact.encode(small_model("propagated", seed=1), artifact.Encoding()))
    assert loaded.recommend(104) == Runtime(model).recommend(104)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_file_recommends_as_the_model_that_was_written(backbone: str, tmp_path: Path):
    model = small_model(backbone)
    artifact.write(tmp_path / "model.cerp", model, artifact.Encoding())
    loaded, users = cerp.load(tmp_path / "model.cerp"), model.users.values.tolist()
    assert loaded.recommend_many(users) == Runtime(model).recommend_many(users)
    assert loaded.titles == model.titles


# --- LightGCN's propagation -------------------------------------------------------------------


def graph(rng: np.random.Generator) -> tuple[Seen, np.ndarray]:
    """30 users and 20 items, some without edges, and their dense adjacency."""
    edges = rng.random((30, 20)) < 0.2
    edges[3], edges[:, 5] = False, False
    adjacency = np.zeros((50, 50))
    adjacency[:30, 30:] = edges
    return seen_of([np.flatnonzero(row).tolist() for row in edges]), adjacency + adjacency.T


def test_propagation_is_the_mean_of_powers_of_the_normalised_adjacency():
    rng = np.random.default_rng(0)
    seen, adjacency = graph(rng)
    table = rng.standard_normal((50, 70)).astype(np.float32)
    degree = adjacency.sum(axis=0)
    scale = np.diag([0 if d == 0 else d**-0.5 for d in degree])
    powers = [np.linalg.matrix_power(scale @ adjacency @ scale, layer) for layer in range(4)]
    expected = sum(powers) @ table / 4
    np.testing.assert_allclose(propagate(table, seen, 3), expected, rtol=1e-5, atol=1e-6)


def test_propagation_is_the_same_bit_by_bit_without_scipy(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(1)
    seen, _ = graph(rng)
    table = rng.standard_normal((50, 70)).astype(np.float32)
    with_scipy = propagate(table, seen, 4)
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    assert propagate(table, seen, 4).tobytes() == with_scipy.tobytes()


# --- someone new ------------------------------------------------------------------------------


def test_one_liked_item_moves_the_mean_user_by_a_newton_step():
    # Users -1 and 1: m = 0, C = 1. Items -1 and 1, equally likely: a = 0, S = 1.
    # Liking 1 gives (1 + 1·C·S)⁻¹ · 1·C·(1 - 0) = 1/2.
    fold_in = FoldIn.of_users(np.float32([[-1], [1]]).__getitem__, 2, np.float32([[-1], [1]]))
    assert fold_in.vector(np.array([1], dtype=np.int32)) == pytest.approx([0.5])


def test_more_of_the_same_moves_further_but_evidence_has_its_limit():
    users, items = np.float32([[-1], [1]]), np.float32([[1]] * 50 + [[-1]] * 50)
    fold_in = FoldIn.of_users(users.__getitem__, 2, items)
    moved = [fold_in.vector(np.arange(count, dtype=np.int32))[0] for count in (1, 4, 32, 50)]
    # n/(1 + n) for n = 1, 4, 32 and again 32.
    assert moved == pytest.approx([1 / 2, 4 / 5, 32 / 33, 32 / 33])


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
def test_new_users_get_lists_nearly_as_good_as_those_of_trained_users(backbone: str):
    known, new = held_out_users(synthetic(500, 300, seed=3), share=0.2)
    config = Config(
        method="full",
        backbone=backbone,
        backbone_options={"layers": 3} if backbone == "lightgcn" else {},
        dim=16,
        train=TrainConfig(epochs=12, learning_rate=0.02, evaluate_every=4),
    )
    recommender = fit_all(known, config, RunOptions(quiet=True))[0].recommender
    runtime = Runtime(shipped(recommender, known, backbone))
    trained = cerp.evaluate(runtime, known).mean["ndcg@10"]
    folded = cerp.evaluate(FoldedIn(runtime, new.train), new, ks=[10]).mean["ndcg@10"]
    assert folded >= 0.8 * trained


def test_liked_items_are_left_out_unless_asked_for():
    runtime = Runtime(factors([[-1], [1]], [[-1], [1], [2]]))
    assert [place.item for place in runtime.recommend_for([20])] == [10, 0]
    found = runtime.recommend_for([20, 20], exclude_seen=False, exclude=[10])
    assert [place.item for place in found] == [20, 0]


def test_the_mlp_says_that_it_cannot_recommend_from_liked_items():
    model = small_model("mlp")
    with pytest.raises(ConfigError, match="Train 'lightgcn' or 'mf'"):
        Runtime(model).recommend_for(model.items.decode([0]))


def test_it_says_in_a_few_lines_what_it_is():
    facts = {"metrics": {"test": {"ndcg@10": 0.12345}}}
    model = replace(small_model("lightgcn"), facts=facts, precision="int4")
    assert repr(Runtime(model, file_bytes=12_345)) == (
        "Runtime: 25 users x 40 items\n"
        "  scores: dot product after 3 layers of propagation, 12 numbers a vector\n"
        "  file: 12,345 bytes, values in int4\n"
        "  test NDCG@10: 0.1235"
    )
    # Facts may say anything, and a model need not come from a file.
    unknown = replace(small_model("mlp"), facts={"metrics": ["none"]})
    assert repr(Runtime(unknown)).splitlines()[1:] == ["  scores: tower (MLP), 12 numbers a vector"]


def test_a_loaded_model_knows_its_file(tmp_path: Path):
    size = artifact.write(tmp_path / "model.cerp", small_model(), Encoding("int8"))
    assert f"file: {size:,} bytes, values in int8" in repr(cerp.load(tmp_path / "model.cerp"))
