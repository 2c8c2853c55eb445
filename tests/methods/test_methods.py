"""Every method on every backbone, in small runs; and what the stages of single methods promise."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import cerp
from cerp.artifact import Encoding, ValuesCodec, decode
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, TrainingError
from cerp.evaluation.evaluate import evaluate
from cerp.methods import METHODS, method
from cerp.methods.autoemb.embedding import AutoEmbedding
from cerp.methods.base import Context, Method
from cerp.methods.esapn.embedding import GrowingEmbedding
from cerp.methods.pep import PrunableTable
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.naming import model_file
from cerp.runs.fit import fit_all
from cerp.runs.fitted_model import FittedModel
from cerp.runtime import Runtime
from cerp.training.loop import Loop
from cerp.training.search_result import Found

BACKBONES: dict[str, dict[str, int]] = {
    "lightgcn": {"layers": 2},
    "mf": {},
    "mlp": {"reference_dim": 16},
}
OPTIONS: dict[str, dict[str, Any]] = {"optembed": {"population": 4, "generations": 1}}
WITHOUT_A_FILE = {"autoemb", "dhe", "esapn", "features", "legcf", "lowrank"}
QUIET = RunOptions(quiet=True)
STILL = TrainConfig(epochs=1, learning_rate=1e-30)
# N = 200 entities of dimension 32: 6,400 values, 8 for each entity at 75%.
LIMIT = 1600


def small_splits() -> Splits:
    return synthetic(120, 80, 1500).split(seed=0)


def config_of(name: str, backbone: str = "mf", **options: Any) -> Config:
    return Config(
        method=name,
        method_options=OPTIONS.get(name, {}) | options,
        backbone=backbone,
        backbone_options=BACKBONES[backbone],
        budgets=("75%",),
        dim=32,
        ordering="degree",
        prune=PruneConfig(epochs=2, batch_size=512),
        train=TrainConfig(epochs=2, evaluate_every=1, batch_size=512, learning_rate=1e-2),
    )


def fitted(config: Config, options: RunOptions = QUIET) -> FittedModel:
    (model,) = fit_all(small_splits(), config, options)
    return model


class Case(NamedTuple):
    model: FittedModel
    folder: Path


WITH_VECTORS = [name for name in METHODS.names() if METHODS[name].has_vectors]


CASES = [
    (name, backbone)
    for name, backbone in product(WITH_VECTORS, BACKBONES)
    if METHODS[name].only_backbone in (None, backbone)
]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A run of each method on each backbone, finished."""
    folder = tmp_path_factory.mktemp("run")
    return Case(fitted(config_of(*request.param), replace(QUIET, folder=folder)), folder)


def test_figures_are_finite_and_the_budget_holds(case: Case):
    model = case.model
    assert model.limit == (6400 if model.config.method == "full" else LIMIT)
    assert 0 < model.facts.paper_count <= model.limit
    assert model.facts.paper_count <= model.facts.stored_count
    assert all(0 <= model.metrics[part]["ndcg@10"] <= 1 for part in ("valid", "test"))
    assert all(entry.isfinite().all() for entry in model.recommender.state_dict().values())


def test_a_finished_run_is_read_back_as_it_was(case: Case):
    model, folder = case
    again = fitted(model.config, replace(QUIET, folder=folder, resume=True))
    assert again.metrics == model.metrics
    assert again.facts.to_json() == json.loads(json.dumps(model.facts.to_json()))
    saved, first = again.recommender.state_dict(), model.recommender.state_dict()
    assert saved.keys() == first.keys()
    assert all(torch.equal(saved[name], first[name]) for name in first)


def test_the_file_scores_every_user_as_the_model_does_or_the_result_says_why_there_is_none(
    case: Case,
):
    model, folder = case
    without = {("pca", "mlp"), *((name, model.config.backbone) for name in WITHOUT_A_FILE)}
    if (model.config.method, model.config.backbone) in without:
        assert "cannot be written to a model file" in model.facts.why_no_file
        return
    users = np.arange(120, dtype=np.int32)
    scores = cerp.load(model_file(folder, model.budget)).score_all(users)
    expected = model.recommender.scorer().score_all(users).numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_values_of_eight_bits_cost_less_than_one_percent_of_ndcg(backbone: str):
    config = config_of("cerp", backbone)
    model = fitted(replace(config, train=replace(config.train, epochs=20)))

    def ndcg(values: ValuesCodec) -> float:
        shipped = Runtime(decode(model.file(Encoding(values=values))))
        return evaluate(shipped, model.splits, on="test").mean["ndcg@10"]

    assert ndcg("int8") > 0.99 * ndcg("fp32") > 0.2


class Stop(Exception):
    """Thrown where a run is to break off."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "steps"),
    # Three steps an epoch and two epochs a stage, of which AutoEmb has one. A budget that is not
    # used up and a fast policy: then all that it has learned shows in the sizes.
    [
        ("autoemb", {}, (4,)),
        ("cce", {}, (3, 4)),
        ("esapn", {"policy_learning_rate": 0.1}, (3, 8)),
        # Three dense epochs of three steps, then two in which the table shrinks.
        ("magnitude", {"dense_epochs": 3, "pace": "gradual"}, (5, 12, 14)),
        ("optembed", {}, (5, 8)),
    ],
)
def test_broken_off_before_a_step_a_run_resumes_to_the_same_bits(
    name: str,
    options: dict[str, Any],
    steps: tuple[int, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    config = replace(config_of(name, **options), budgets=("20%",))
    undisturbed = fitted(config)
    expected = undisturbed.recommender.state_dict()
    take_step = Loop.take_step
    for break_off_at in steps:
        taken = 0

        def take_some(self: Loop, *place: Any, most: int = break_off_at) -> None:
            nonlocal taken
            if taken == most:
                raise Stop
            taken += 1
            take_step(self, *place)

        folder = tmp_path / str(break_off_at)
        run = replace(QUIET, folder=folder, resume=True, checkpoint_seconds=0)
        with monkeypatch.context() as patched:
            patched.setattr(Loop, "take_step", take_some)
            with pytest.raises(Stop):
                fitted(config, run)
        resumed = fitted(config, run)
        weights = resumed.recommender.state_dict()
        assert all(torch.equal(weights[entry], expected[entry]) for entry in expected)
        assert resumed.facts.search == undisturbed.facts.search


@pytest.mark.parametrize(
    ("name", "option", "known"),
    [
        ("cerp", "buckets", "none"),
        ("ud", "width", "none"),
        ("qr", "op", "operation"),
        ("cce", "rows", "chunks, every"),
        ("legcf", "rows", "choices, layers, own_weight"),
        ("lowrank", "rank", "none"),
        ("pq", "groups", "books, rows"),
        ("features", "rank", "damping, most"),
        ("dhe", "positions", "accounting, layers, num_codes"),
        ("magnitude", "off", "dense_epochs, dense_training, of, pace"),
        ("autoemb", "learning_rate", "controller_learning_rate"),
        ("esapn", "size", "history, policy_learning_rate, sizes"),
        ("optembed", "alpha", "generations, genes, judged_users, population, threshold_"),
    ],
)
def test_an_unknown_option_is_refused_with_those_there_are(name: str, option: str, known: str):
    with pytest.raises(
        ConfigError, match=f"{name}' has no option '{option}'; its options: {known}"
    ):
        method(name, {option: 1})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("magnitude", {"of": "rows"}, "choose table or codebooks"),
        ("magnitude", {"pace": "slow"}, "choose 'at once' or gradual"),
        ("magnitude", {"dense_epochs": 0}, "dense_epochs must be a number from 1"),
        ("magnitude", {"dense_training": {"negatives": 2}}, "dense_training needs dense_epochs"),
        (
            "magnitude",
            {"dense_epochs": 1, "dense_training": {"rate": 1}},
            "dense_training has no entry rate",
        ),
        (
            "magnitude",
            {"dense_epochs": 1, "dense_training": {"negatives": 0}},
            "negatives is 0; it must be above 0",
        ),
        ("autoemb", {"controller_learning_rate": 0}, "controller_learning_rate must be a number"),
        ("esapn", {"history": 0}, "at least 1 loss"),
        ("cce", {"every": 0}, "every >= 1"),
        ("features", {"most": 0}, "most >= 1"),
        ("rq", {"rows": 1}, "rows >= 2"),
        ("optembed", {"threshold_penalty": "strong"}, "threshold_penalty must be a number"),
        ("optembed", {"population": 0}, "evolution needs a population"),
    ],
)
def test_impossible_options_are_refused(name: str, options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        method(name, options)


@pytest.mark.parametrize(
    ("name", "budget", "smallest"),
    # 6, 2 and 1 values for each of 200 entities.
    [("autoemb", 1199, "1,200"), ("esapn", 399, "400"), ("optembed", 199, "200")],
)
def test_a_budget_that_cannot_be_met_is_refused_with_the_smallest(
    name: str, budget: int, smallest: str
):
    with pytest.raises(ConfigError, match=f"budget.* {smallest}"):
        fitted(replace(config_of(name), budgets=(str(budget),)))


@pytest.mark.parametrize("name", ["autoemb", "esapn", "optembed"])
def test_several_processes_are_refused_where_they_cannot_share_a_batch(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cerp.methods.base.world_size", lambda: 2)
    with pytest.raises(ConfigError, match="start it without torchrun"):
        method(name)
    assert method("cerp").is_parallel


@pytest.mark.parametrize("name", ["pep", "optembed"])
def test_what_is_left_of_a_table_is_trained_from_its_first_values(name: str):
    embedding = fitted(replace(config_of(name), train=STILL)).recommender.embedding
    assert isinstance(embedding, PrunableTable)
    first = PrunableTable(200, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(embedding.weight, first.weight * embedding.mask)
    assert 0.95 * LIMIT <= int(embedding.mask.sum()) <= LIMIT


def test_magnitude_pruning_of_codebooks_is_cerp_without_thresholds():
    model = fitted(config_of("magnitude", of="codebooks"))
    embedding = model.recommender.embedding
    assert isinstance(embedding, CompositionalEmbedding)
    assert model.facts.search["magnitude_jaccard"] == 1
    config = config_of("cerp")
    twin = fitted(replace(config, prune=replace(config.prune, mode="magnitude")))
    assert torch.equal(embedding.table(), twin.recommender.embedding.table())


def test_magnitude_pruning_at_once_keeps_the_largest_of_a_table_that_was_trained_to_its_end():
    trained = StageTrace()
    config = replace(config_of("magnitude", dense_epochs=4), train=STILL, budgets=("50%", "75%"))
    looser, tighter = fit_all(small_splits(), config, replace(QUIET, callbacks=(trained,)))
    assert trained.stages == ["dense", "train 50%", "train 75%"]
    first, second = (one.recommender.embedding for one in (looser, tighter))
    assert isinstance(first, PrunableTable)
    assert isinstance(second, PrunableTable)
    assert (int(first.mask.sum()), int(second.mask.sum())) == (3200, LIMIT)
    assert (second.mask <= first.mask).all()
    assert torch.equal(second.weight[second.mask], first.weight[second.mask])
    assert (
        first.weight[second.mask].abs().min() >= first.weight[first.mask & ~second.mask].abs().max()
    )
    assert tighter.facts.search["dense_valid"] > 0


def test_the_training_of_the_table_that_is_pruned_can_be_chosen():
    still = {"learning_rate": STILL.learning_rate, "optimizer": "adam", "weight_decay": 0.0}
    config = config_of("magnitude", dense_epochs=2, dense_training=still)
    embedding = fitted(replace(config, train=STILL)).recommender.embedding
    assert isinstance(embedding, PrunableTable)
    start = FullEmbedding(200, 32, generator=torch.Generator().manual_seed(config.seed))
    assert torch.equal(embedding.weight[embedding.mask], start.weight[embedding.mask])


def test_gradual_magnitude_pruning_never_gives_a_pruned_entry_back_what_it_had():
    config = config_of("magnitude", dense_epochs=2, pace="gradual")
    model = fitted(replace(config, prune=replace(config.prune, dense_share=0.0), train=STILL))
    embedding = model.recommender.embedding
    assert isinstance(embedding, PrunableTable)
    assert int(embedding.mask.sum()) == LIMIT
    assert (model.facts.search["reached"], model.facts.search["epoch"]) == (True, 2)
    at_once = fitted(replace(config_of("magnitude", dense_epochs=2), train=STILL))
    other = at_once.recommender.embedding
    assert isinstance(other, PrunableTable)
    shared = int((embedding.mask & other.mask).sum())
    assert LIMIT // 2 < shared < LIMIT


class StageTrace(cerp.Callback):
    """The names of stages, in their order."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def on_stage(self, stage: str) -> None:
        self.stages.append(stage)


def autoemb(config: Config) -> AutoEmbedding:
    embedding = fitted(config).recommender.embedding
    assert isinstance(embedding, AutoEmbedding)
    return embedding


def parameters(embedding: AutoEmbedding, *, of_controllers: bool) -> dict[str, torch.Tensor]:
    return {
        name: entry
        for name, entry in embedding.named_parameters()
        if name.startswith("controllers") == of_controllers
    }


def test_controllers_learn_in_their_own_steps_and_nothing_else_does():
    resting = config_of("autoemb", controller_learning_rate=1e-30)
    decaying = replace(resting, train=replace(resting.train, weight_decay=0.1))
    only_controllers = replace(config_of("autoemb"), train=STILL)
    neither = autoemb(replace(resting, train=STILL))
    for config, of_controllers in ((decaying, False), (only_controllers, True)):
        learned = autoemb(config)
        for group in (True, False):
            before = parameters(neither, of_controllers=group)
            after = parameters(learned, of_controllers=group)
            moved = any(not torch.allclose(after[name], before[name]) for name in before)
            assert moved == (group == of_controllers)


def test_entities_that_no_batch_had_are_judged_by_fresh_weights():
    ids = {"users": Ids.range(5), "items": Ids.range(6)}
    train = Interactions.from_codes([0, 0, 1, 2, 3], [0, 1, 2, 3, 1], **ids)
    valid = Interactions.from_codes([0], [2], **ids)
    splits = Splits(train, valid, Interactions.from_codes([4], [0], **ids))
    (model,) = fit_all(splits, config_of("autoemb"), QUIET)
    assert 0 < float(model.recommender.embedding.alpha[4, 0]) < 1


def test_autoemb_can_be_refitted_on_all_data():
    model = fitted(replace(config_of("autoemb"), refit="all"))
    assert model.metrics == {}


def levels(model: FittedModel) -> torch.Tensor:
    embedding = model.recommender.embedding
    assert isinstance(embedding, GrowingEmbedding)
    return embedding.levels


def test_one_search_of_esapn_fills_every_budget():
    config = replace(config_of("esapn"), budgets=("75%", "90%"))
    loose, tight = fit_all(small_splits(), config, QUIET)
    assert bool((levels(tight) <= levels(loose)).all())
    # The next step of an entity adds at most 16 values.
    assert 640 - 16 < tight.facts.paper_count <= 640
    sizes = tight.facts.search["entities_of_size"]
    assert sum(int(size) * count for size, count in sizes.items()) == tight.facts.paper_count
    # The search's own model is that of the sizes it ended with, and of no others.
    assert loose.facts.search["valid_ndcg@10_without_retraining"] is not None
    assert tight.facts.search["valid_ndcg@10_without_retraining"] is None


def test_a_budget_that_esapn_passes_is_used_up_to_the_last_value():
    # All 200 entities start with 2 values, and growing adds 2: when 50 have grown, 500 are in use.
    config = replace(config_of("esapn", sizes=(2, 4)), budgets=("500", "700"), train=STILL)
    tight, loose = fit_all(small_splits(), config, QUIET)
    assert tight.facts.paper_count == 500 < loose.facts.paper_count


def test_esapn_trains_afresh_with_the_sizes_it_found():
    embedding = fitted(replace(config_of("esapn"), train=STILL)).recommender.embedding
    fresh = GrowingEmbedding.for_limit(
        200, 32, LIMIT, num_users=120, generator=torch.Generator().manual_seed(0)
    )
    for table, first in zip(embedding.tables, fresh.tables, strict=True):
        assert torch.equal(table, first)
    assert int(embedding.levels.max()) > 0


def test_esapn_grows_through_the_sizes_it_is_given(tmp_path: Path):
    config, options = config_of("esapn", sizes=(4, 12)), replace(QUIET, folder=tmp_path)
    model = fitted(config, options)
    assert model.recommender.embedding.embedding_dim == 12
    assert model.facts.search["entities_of_size"].keys() == {"4", "12"}
    # The tuple is a list in the folder's config.json, and still the same run.
    assert fitted(config, replace(options, resume=True)).facts == model.facts


@pytest.mark.parametrize("genes", ["field", "entity"])
def test_optembed_keeps_a_prefix_of_every_row_and_its_best_never_falls(genes: str):
    model = fitted(config_of("optembed", genes=genes))
    mask = model.recommender.embedding.mask
    assert torch.equal(mask, mask.cummin(dim=1).values)
    first, last = model.facts.search["best_by_generation"]
    assert first <= last == model.facts.search["valid_ndcg@10_without_retraining"]
    is_field = genes == "field"
    assert (len(mask[:120].sum(dim=1).unique()) == 1) == is_field
    assert (model.facts.search["widths"] is not None) == is_field


def test_rows_of_optembed_go_when_their_thresholds_rise():
    # A step of SGD lifts τ by rate · α · exp(-τ): above any norm in the first one.
    pushed = {"threshold_learning_rate": 100.0, "threshold_penalty": 1.0}
    with pytest.raises(TrainingError, match="dropped all users or all items; lower threshold_pen"):
        fitted(config_of("optembed", **pushed))
    # In six steps of .25 · exp(-τ), and by what rows are worth to the loss, to .9 or so.
    some = fitted(config_of("optembed", threshold_learning_rate=0.25, threshold_penalty=1.0))
    assert 0 < some.facts.search["kept_users"] + some.facts.search["kept_items"] < 200


class Searching(Method):
    """Reads what its search has found, and has no placeholder."""

    def embedding(self, context: Context, limit: int, found: Found) -> PrunableTable:
        raise AssertionError(found.tensors["codes"])


def test_a_search_without_a_placeholder_is_refused_where_bytes_are_limited(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(METHODS, "_parts", {**METHODS._parts, "searching": Searching})
    splits = synthetic(60, 40, 700).split(seed=0)
    with pytest.raises(ConfigError, match=r"reads 'codes' of what is found; give Searching a"):
        cerp.fit(splits, "2KB", method="searching", verbose=False)
