from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training_process import CONFIG, small_splits

import cerp
from cerp.choices import StallAction
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError, TrainingError
from cerp.models import backbones
from cerp.models.batch import Batch
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.recommender import Recommender
from cerp.runs.fit import fit, fit_all
from cerp.runs.fitted_model import FittedModel
from cerp.training.checkpoint import read_checkpoint
from cerp.training.loop import Checkpointing, EarlyStopping, Loop, StageHooks
from cerp.training.objective import Objective
from cerp.training.pruning_hooks import ScheduledPruning
from cerp.training.sampling import Sampler

QUIET = RunOptions(quiet=True)


def tiny() -> Interactions:
    return Interactions.from_codes(
        [0, 0, 1, 2], [0, 1, 2, 3], users=Ids.range(3), items=Ids.range(5)
    )


def mf(seed: int = 0) -> Recommender:
    generator = torch.Generator().manual_seed(seed)
    return Recommender(
        FullEmbedding(8, 4, generator=generator),
        backbones.create("mf", tiny(), embedding_dim=4),
    )


def loop_over(model: Recommender, **options: object) -> Loop:
    sampler = Sampler(tiny(), batch_size=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    defaults: dict[str, object] = {"epochs": 2, "hooks": StageHooks(), "label": "t", "quiet": True}
    return Loop(model, sampler, [optimizer], **(defaults | options))


def test_one_step_is_the_hand_computed_one():
    model = mf()
    batch = Batch(torch.tensor([1]), torch.tensor([2]), torch.tensor([[0, 4]]))
    table = model.embedding.table().detach().double().numpy().copy()
    user, positive, negatives = table[1], table[3 + 2], table[[3 + 0, 3 + 4]]
    # d softplus(n - p) = sigmoid(n - p) (dn - dp)
    slope = 1 / (1 + np.exp(-(negatives @ user - positive @ user)))
    expected = table.copy()
    expected[1] -= 0.1 * (slope @ (negatives - positive))
    expected[5] -= 0.1 * (-slope.sum() * user)
    expected[[3, 7]] -= 0.1 * slope[:, None] * user
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Objective()(model, batch, 1).backward()
    optimizer.step()
    np.testing.assert_allclose(model.embedding.table().detach().numpy(), expected, atol=1e-6)


def test_half_precision_computes_products_alone_and_learns_alike():
    weights = {}
    for precision in ("float32", "bfloat16"):
        model = mf()
        loop_over(model, precision=precision).run()
        weights[precision] = model.embedding.table().detach()
    assert weights["bfloat16"].dtype == torch.float32
    assert not torch.equal(weights["float32"], weights["bfloat16"])
    torch.testing.assert_close(*weights.values(), rtol=0, atol=5e-3)


def test_the_penalty_counts_distinct_users_and_all_items_at_any_batch_size():
    model = mf()
    batch = Batch(torch.tensor([1, 1]), torch.tensor([2, 2]), torch.tensor([[0], [0]]))
    table = model.embedding.table().detach().double()
    counted = torch.tanh(3 * table).square().sum(1)
    penalty = -(counted[1] + 2 * counted[5] + 2 * counted[3])
    with_penalty = Objective(gamma=0.5, temperature=3.0)(model, batch, 2)
    without = Objective()(model, batch, 2)
    assert (with_penalty - without).item() == pytest.approx(0.5 * float(penalty) / 2, abs=1e-5)


def test_parts_of_a_batch_add_up_to_the_whole():
    model, splits = mf(), tiny()
    objective = Objective(gamma=0.1)
    whole = objective(model, Sampler(splits, batch_size=4).batch(0, 0), 4).item()
    shares = [Sampler(splits, share=(rank, 3), batch_size=4).batch(0, 0) for rank in range(3)]
    parts = [objective(model, batch, 4) for batch in shares if len(batch.users)]
    assert sum(part.item() for part in parts) == pytest.approx(whole, rel=1e-5)


def test_the_best_epoch_is_restored():
    scores: Iterator[float] = iter([0.1, 0.9, 0.3, 0.2])
    model, seen = mf(), []

    def judge() -> float:
        seen.append(model.embedding.table().detach().clone())
        return next(scores)

    loop = loop_over(model, epochs=9, early_stopping=EarlyStopping(judge, every=1, patience=2))
    loop.run()
    assert loop.best == (0.9, 2)
    assert len(loop.history) == 4
    assert torch.equal(model.embedding.table(), seen[1])


class Stop(Exception):
    """Thrown where a run is to break off."""


def test_broken_off_before_any_step_a_loop_resumes_to_the_same_end(tmp_path: Path):
    scores = [0.1, 0.4, 0.3, 0.9, 0.5, 0.6, 0.7]

    def loop(name: str, break_off_at: int | None = None) -> Loop:
        class Hooks(StageHooks):
            def before_step(self, step: int) -> None:
                if step == break_off_at:
                    raise Stop

        model = mf()
        made = loop_over(
            model,
            epochs=7,
            hooks=Hooks(),
            early_stopping=EarlyStopping(lambda: scores[len(made.history)], every=1, patience=2),
            checkpointing=Checkpointing(tmp_path / name, "stage", seconds=0),
        )
        made.optimizers[0] = torch.optim.Adam(model.parameters(), lr=0.1)
        return made

    undisturbed = loop("undisturbed")
    undisturbed.run()
    # Epoch 4 is the best, and two epochs without a better one end the run: 6 of 2 steps each.
    assert (undisturbed.best, len(undisturbed.history)) == ((0.9, 4), 6)
    for step in range(1, 12):
        with pytest.raises(Stop):
            loop(f"at{step}", break_off_at=step).run()
        resumed = loop(f"at{step}")
        resumed.run()
        assert resumed.best == undisturbed.best
        assert resumed.history == undisturbed.history
        assert torch.equal(resumed.model.embedding.table(), undisturbed.model.embedding.table())


class Signalled(StageHooks):
    """Sends its own process a signal in the third step, as often as told."""

    def __init__(self, number: int, times: int = 1) -> None:
        self.number, self.times, self.steps = number, times, 0

    def before_step(self, step: int) -> None:
        self.steps += 1
        for _ in range(self.times if self.steps == 3 else 0):
            signal.raise_signal(self.number)


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that, unless a loop catches it, is a `Stop`."""

    def stop(*_: object) -> None:
        raise Stop

    before = signal.signal(request.param, stop)
    yield request.param
    signal.signal(request.param, before)


def test_what_asks_a_loop_to_stop_is_heeded_after_a_checkpoint(
    tmp_path: Path, number: signal.Signals
):
    path = tmp_path / "checkpoint"
    hooks, kept = Signalled(number), Checkpointing(path, "stage", seconds=1e9)
    with pytest.raises(Stop):
        loop_over(mf(), epochs=9, hooks=hooks, checkpointing=kept).run()
    assert (hooks.steps, read_checkpoint(path)[1]["sampler"]["step"]) == (3, 1)  # 2 in an epoch
    with pytest.raises(Stop):
        signal.raise_signal(number)


def test_asked_a_second_time_a_loop_stops_at_once(tmp_path: Path, number: signal.Signals):
    kept = Checkpointing(tmp_path / "checkpoint", "stage", seconds=1e9)
    with pytest.raises(Stop):
        loop_over(mf(), hooks=Signalled(number, times=2), checkpointing=kept).run()
    assert not kept.path.exists()


def test_what_is_ignored_stays_so(number: signal.Signals):
    signal.signal(number, signal.SIG_IGN)
    hooks = Signalled(number)
    loop_over(mf(), epochs=9, hooks=hooks).run()
    assert hooks.steps == 18


def test_a_loop_that_was_told_to_stop_never_looks_finished(number: signal.Signals):
    signal.signal(number, lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        loop_over(mf(), epochs=9, hooks=Signalled(number)).run()


@pytest.mark.slow
def test_broken_off_before_any_step_pruning_resumes_to_the_same_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = replace(CONFIG, backbone="mf", train=TrainConfig(epochs=1))
    steps = 3 * len(Sampler(small_splits().train, batch_size=256))
    shift = ScheduledPruning.before_step
    expected = [model.metrics for model in fit_all(small_splits(), config, QUIET)]
    for break_off_at in range(1, steps):
        folder = RunOptions(folder=tmp_path / str(break_off_at), resume=True, quiet=True)
        options = replace(folder, checkpoint_seconds=0)

        def before_step(self: ScheduledPruning, step: int, at: int = break_off_at) -> None:
            if step == at:
                raise Stop
            shift(self, step)

        monkeypatch.setattr(ScheduledPruning, "before_step", before_step)
        with pytest.raises(Stop):
            fit_all(small_splits(), config, options)
        monkeypatch.setattr(ScheduledPruning, "before_step", shift)
        assert [model.metrics for model in fit_all(small_splits(), config, options)] == expected


def test_cosine_ends_near_zero():
    loop = loop_over(mf(), epochs=10, cosine=True)
    loop.run()
    # The last of 20 steps runs at 0.1 * (1 + cos(19/20 pi)) / 2.
    rate = loop.optimizers[0].param_groups[0]["lr"]
    assert rate == pytest.approx(0.1 * (1 + np.cos(0.95 * np.pi)) / 2)


def test_a_loss_that_is_not_finite_stops_with_the_step_named():
    class PoisonAtStep3(StageHooks):
        def before_step(self, step: int) -> None:
            if step == 3:
                model.embedding.weight.data.fill_(float("nan"))

    model = mf()
    with pytest.raises(TrainingError, match=r"t: the loss is not finite at step 3 \(epoch 2\)"):
        loop_over(model, epochs=3, hooks=PoisonAtStep3()).run()


def test_clipping_bounds_the_step():
    model = mf()
    before = model.embedding.table().detach().clone()
    loop_over(model, epochs=1, clip_norm=1e-3).run()
    moved = (model.embedding.table().detach() - before).norm()
    assert 0 < float(moved) <= 2 * 0.1 * 1e-3 * 1.001


@pytest.fixture(scope="module")
def models() -> list[FittedModel]:
    return fit_all(small_splits(), CONFIG, QUIET)


def test_budgets_come_in_the_order_given_and_hold(models: list[FittedModel]):
    # N = 200 entities of dimension 8: 1,600 values.
    assert [(model.budget, model.limit) for model in models] == [("80%", 320), ("95%", 80)]
    assert all(0 < model.facts.nnz <= model.limit for model in models)


def test_the_same_seed_gives_the_same_model(models: list[FittedModel]):
    again = fit_all(small_splits(), CONFIG, QUIET)
    for first, second in zip(models, again, strict=True):
        assert first.metrics == second.metrics
        ours, theirs = first.recommender.state_dict(), second.recommender.state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_result_says_how_far_the_mask_is_that_of_magnitude_pruning(models: list[FittedModel]):
    assert all(0 < model.facts.search["magnitude_jaccard"] <= 1 for model in models)


def test_recommendations_are_new_to_the_user_and_in_original_ids(models: list[FittedModel]):
    splits = models[0].splits
    taken = set(splits.train.item[splits.train.user == 3].tolist())
    recommended = models[0].recommend(3, k=5)
    assert len(recommended) == 5
    assert not taken & {entry.item for entry in recommended}


def test_a_saved_model_recommends_what_the_trained_one_does(models: list[FittedModel], tmp_path):
    size = models[0].save(tmp_path / "model.cerp")
    assert size == (tmp_path / "model.cerp").stat().st_size == models[0].facts.file_bytes
    loaded = cerp.load(tmp_path / "model.cerp")
    assert all(loaded.recommend(user) == models[0].recommend(user) for user in range(5))
    assert (
        loaded.model.facts["metrics"]["test"]["ndcg@10"] == (models[0].metrics["test"]["ndcg@10"])
    )


def test_magnitude_pruning_keeps_the_largest_entries_of_plain_training():
    prune = PruneConfig(mode="magnitude", epochs=2)
    config = replace(CONFIG, prune=prune, train=TrainConfig(epochs=1))
    loose, tight = fit_all(small_splits(), config, QUIET)
    for model in (loose, tight):
        assert model.facts.nnz == model.limit
        found = model.facts.search
        assert (found["epoch"], found["reached"], found["magnitude_jaccard"]) == (2, True, 1.0)
    inside = tight.recommender.embedding.mask & ~loose.recommender.embedding.mask
    assert not inside.any()  # what is large enough for 80 values is so for 320


def test_gamma_is_halved_after_every_epoch_of_pruning(tmp_path: Path):
    config = replace(CONFIG, prune=PruneConfig(epochs=3, gamma=0.4), train=TrainConfig(epochs=1))
    fit_all(small_splits(), config, replace(QUIET, folder=tmp_path))
    rows = map(json.loads, (tmp_path / "curves.jsonl").read_text().splitlines())
    assert [row["gamma"] for row in rows if row["stage"] == "prune"] == [0.4, 0.2, 0.1]


@pytest.mark.parametrize("rewind", ["initial", "pruned"])
def test_training_starts_from_the_initial_or_the_pruned_values_under_the_mask(rewind: str):
    still = TrainConfig(epochs=1, learning_rate=1e-30)
    config = replace(CONFIG, backbone="mf", budgets=("80%",), rewind=rewind, train=still)
    (model,) = fit_all(small_splits(), config, QUIET)
    embedding = model.recommender.embedding
    assert isinstance(embedding, CompositionalEmbedding)
    first = CompositionalEmbedding(
        200, 8, buckets=embedding.hash.buckets, generator=torch.Generator().manual_seed(config.seed)
    )
    is_initial = torch.equal(embedding.weight, first.weight * embedding.mask)
    assert is_initial == (rewind == "initial")


@settings(max_examples=8)
@given(st.integers(50, 99), st.sampled_from(["scheduled", "free"]))
def test_every_finished_model_keeps_to_its_budget(percent: int, mode: str):
    config = replace(
        CONFIG,
        backbone="mf",
        budgets=(f"{percent}%",),
        prune=PruneConfig(mode=mode, epochs=2, max_epochs=3, batch_size=512),
        train=TrainConfig(epochs=1, batch_size=512),
    )
    (model,) = fit_all(small_splits(), config, QUIET)
    assert model.facts.nnz <= model.limit == 1600 * (100 - percent) // 100


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["scheduled", "free"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_pruning_takes_the_wanted_epochs_at_any_batch_size_with_any_optimizer(
    mode: str, optimizer: str
):
    splits, reached = cerp.load_splits("synthetic"), []
    once = TrainConfig(epochs=1, batch_size=8192, validation_users=50)
    for batch_size in (1024, 8192):
        prune = PruneConfig(
            mode=mode, epochs=5, max_epochs=10, batch_size=batch_size, optimizer=optimizer
        )
        config = replace(CONFIG, backbone="mf", budgets=("95%",), prune=prune, train=once)
        (model,) = fit_all(splits, config, QUIET)
        assert model.facts.search["reached"]
        reached.append(model.facts.search["epoch"])
    assert abs(reached[0] - reached[1]) <= 1
    assert abs(reached[0] - 5) <= 1


def test_a_stall_can_stop_the_run(monkeypatch: pytest.MonkeyPatch):
    # Against a penalty that is never halved, a decay this weak lifts no threshold any more.
    monkeypatch.setattr("cerp.training.pruning_hooks.DECAY_TIMES_ROWS", 2e-7)
    prune = PruneConfig(
        mode="free", epochs=1, max_epochs=40, gamma=1.0, gamma_decay=1.0, on_stall="stop"
    )
    config = replace(CONFIG, budgets=("99%",), prune=prune)
    with pytest.raises(TrainingError, match="pruning stalled at epoch"):
        fit_all(small_splits(), config, QUIET)


STALLED = PruneConfig(mode="free", epochs=1, max_epochs=40, gamma=1.0, gamma_decay=1.0)


def stalled(action: StallAction, *, max_epochs: int = 40, quiet: bool = False) -> FittedModel:
    """Pruned to 99% as far as it goes; then one epoch of training."""
    prune = replace(STALLED, on_stall=action, max_epochs=max_epochs)
    config = replace(CONFIG, budgets=("99%",), prune=prune, train=TrainConfig(epochs=1))
    [model] = fit_all(small_splits(), config, RunOptions(quiet=quiet))
    return model


@pytest.mark.parametrize(
    ("action", "words", "epochs"),
    # Three flat epochs after the first that counts: noticed in the sixth. Or to the last.
    [("project", "are met by exact projection", 6), ("report", "goes on to its last epoch", 12)],
)
def test_a_stall_is_told_once_and_finished_by_projection(
    action: StallAction,
    words: str,
    epochs: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("cerp.training.pruning_hooks.DECAY_TIMES_ROWS", 2e-7)
    model = stalled(action, max_epochs=12)
    told = capsys.readouterr().err
    assert (told.count("pruning stalled"), told.count(words)) == (1, 1)
    assert "pruning ended" not in told
    assert (model.facts.search["reached"], model.facts.search["epoch"]) == (False, epochs)
    assert model.facts.nnz <= model.limit


def test_epochs_that_run_out_are_told_like_a_stall(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("cerp.training.pruning_hooks.DECAY_TIMES_ROWS", 2e-7)
    assert not stalled("report", max_epochs=2).facts.search["reached"]
    told = capsys.readouterr().err
    # 200 entities of dimension 8: 1% of 1,600 values.
    assert re.search(r"pruning ended at epoch 2: \d+ values are left, the target is 16,", told)
    assert "exact projection" in told
    with pytest.raises(TrainingError, match="pruning ended at epoch 2"):
        stalled("stop", max_epochs=2, quiet=True)
    stalled("report", max_epochs=2, quiet=True)
    assert capsys.readouterr().err == ""


def test_an_epoch_that_pruning_does_not_need_to_its_end_has_a_row(tmp_path: Path):
    prune = PruneConfig(mode="free", epochs=2, max_epochs=10, batch_size=64)
    config = replace(CONFIG, budgets=("80%",), prune=prune, train=TrainConfig(epochs=1))
    [model] = fit_all(small_splits(), config, replace(QUIET, folder=tmp_path))
    rows = [json.loads(line) for line in (tmp_path / "curves.jsonl").read_text().splitlines()]
    last = [row for row in rows if row["stage"] == "prune"][-1]
    assert last["epoch"] == model.facts.search["epoch"]
    assert last["epoch"] % 1 > 0
    assert last["nnz"] <= model.limit


def test_a_refit_trains_on_more_data_for_the_selected_epochs():
    config = replace(CONFIG, budgets=("80%",), refit="train+valid")
    (model,) = fit_all(small_splits(), config, QUIET)
    splits = small_splits()
    assert len(model.splits.train) == len(splits.train) + len(splits.valid)
    assert set(model.metrics) == {"test"}


def test_a_refit_on_everything_reports_no_test_figures():
    (model,) = fit_all(small_splits(), replace(CONFIG, budgets=("80%",), refit="all"), QUIET)
    assert model.metrics == {}


def test_fit_is_the_short_way_to_one_model():
    config = replace(CONFIG, backbone="mf", budgets=("90%",), train=TrainConfig(epochs=2))
    model = fit(small_splits(), config=config, verbose=False)
    assert model.limit == 160
    assert 0 <= model.metrics["test"]["ndcg@10"] <= 1


def test_a_full_table_is_trained_without_a_budget():
    config = replace(CONFIG, method="full", budgets=("0",), train=TrainConfig(epochs=2))
    (model,) = fit_all(small_splits(), config, QUIET)
    assert model.facts.nnz == 1600


def test_native_order_carries_the_leak_figures(tmp_path: Path):
    config = replace(CONFIG, ordering="native", budgets=("80%",), train=TrainConfig(epochs=1))
    fit_all(small_splits(), config, replace(QUIET, folder=tmp_path))
    result = json.loads((tmp_path / "metrics.json").read_text())
    assert set(result["id_leak"]) >= {"item_window", "user_window"}


def test_a_user_without_positives_and_an_unseen_item_are_fine():
    ids = {"users": Ids.range(5), "items": Ids.range(6)}
    train = Interactions.from_codes([0, 0, 1, 2, 3], [0, 1, 2, 3, 1], **ids)
    valid = Interactions.from_codes([0], [2], **ids)
    test = Interactions.from_codes([4, 1], [0, 5], **ids)
    config = replace(CONFIG, budgets=("50%",), train=TrainConfig(epochs=2))
    (model,) = fit_all(Splits(train, valid, test), config, QUIET)
    assert model.metrics["test"]["users"] == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budgets": ("1",)}, "smallest possible is 2"),
        ({"buckets": 3}, "3 buckets cannot tell 200 entities apart; the smallest"),
        ({"method": "pop"}, "unknown method 'pop'"),
        ({"backbone": "ncf"}, "unknown backbone 'ncf'"),
        ({"ordering": "random"}, "unknown ordering 'random'"),
    ],
)
def test_impossible_wishes_are_refused(change: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        fit_all(small_splits(), replace(CONFIG, **change), QUIET)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TrainConfig(epochs=0), "epochs is 0; it must be above 0"),
        (lambda: TrainConfig(optimizer="sgd"), "optimizer is 'sgd'; choose one of adam, adamw"),
        (lambda: PruneConfig(gamma=2.0), r"gamma is 2\.0; it must be at most 1"),
        (lambda: Config(budgets=()), "at least one budget"),
        (lambda: Config.from_dict({"learning_rate": 1}), "config has no entry 'learning_rate'"),
        (lambda: Config.from_dict({"train": {"lr": 1}}), r"config\.train has no entry 'lr'"),
    ],
)
def test_bad_configurations_are_named(build, message: str):
    with pytest.raises(ConfigError, match=message):
        build()


def test_a_configuration_survives_json():
    assert Config.from_dict(json.loads(json.dumps(CONFIG.to_dict()))) == CONFIG
