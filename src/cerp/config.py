"""What to train, as frozen values that survive a round trip through JSON.

Hyper-parameters only: they decide the result. Where and how a run happens
(device, folder, progress) is `RunOptions`, which does not.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cerp.budget import parse_size
from cerp.callbacks import Callback
from cerp.choices import (
    Assignment,
    ComputePrecision,
    Hashing,
    Mix,
    Optimizer,
    PruneMode,
    Refit,
    Rewind,
    Schedule,
    StallAction,
    ThresholdStart,
    ValuePrecision,
)
from cerp.errors import ConfigError
from cerp.kinds import fits

RENAMED = {"hash": "hashing", "keep_seen": "store_seen", "values": "value_precision"}
"""Entries of `Config` by their names in 0.1, which records of results still have."""

LIKELY_LEARNING_RATES = (1e-6, 0.5)
"""Beyond them adaptive optimizers take steps as large as the weights, or none to speak of."""

LARGEST_SEED = 2**32 - 1
"""Some random numbers are hashes of one 64-bit word: half of it is the seed."""


def limited(default: Any, **bounds: float) -> Any:
    """A number with a default and bounds that `check_settings` looks at.

    Bounds are called ``above``, ``least``, ``below`` and ``most``, as in
    ``epochs: int = limited(60, above=0)``.
    """
    return field(default=default, metadata={"bounds": bounds})


def check_settings(settings: Any) -> None:
    """Refuse a dataclass with a value that is not of its field's type or not within its bounds.

    A field's type is the rule: of ``Literal`` words one must be given, of ``int`` a whole
    number, of ``float`` a number, and ``None`` where the type allows it.
    """
    hints = get_type_hints(type(settings))
    for entry in fields(settings):
        value, kind = getattr(settings, entry.name), hints[entry.name]
        if not fits(value, kind):
            raise ConfigError(f"{entry.name} is {value!r}; {_wanted(kind)}")
        for name, bound in entry.metadata.get("bounds", {}).items():
            words, holds = _BOUNDS[name]
            if value is not None and not holds(value, bound):
                raise ConfigError(f"{entry.name} is {value}; it must be {words} {bound:,}")


_BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "above": ("above", operator.gt),
    "least": ("at least", operator.ge),
    "below": ("below", operator.lt),
    "most": ("at most", operator.le),
}


def _wanted(kind: Any) -> str:
    """What a setting of a type must be, in words."""
    several = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    kinds = [_KINDS[one] for one in several if one in _KINDS]
    words = [word for one in several if get_origin(one) is Literal for word in get_args(one)]
    if kinds:
        return f"it must be {' or '.join([*kinds, *words])}"
    return f"choose one of {', '.join(words)}" if words else "that is of the wrong kind"


_KINDS = {bool: "True or False", int: "a whole number", float: "a number", str: "a word"}


@dataclass(frozen=True)
class TrainConfig:
    """One stretch of gradient training with early stopping on validation."""

    epochs: int = limited(60, above=0)
    """At most so many."""
    batch_size: int | None = limited(None, above=0)
    """Positives in a batch; None: by `default_batch_size`."""
    epoch_size: int | None = limited(None, above=0)
    """Positives in an epoch, in whole batches: each goes on where the one before it stopped. None:
    all. For data of which one pass takes hours, and of which curves, validation and the end of
    training are wanted sooner."""
    negatives: int = limited(5, above=0)
    """Fresh negatives for each positive."""
    optimizer: Optimizer = "adam"
    learning_rate: float = limited(5e-3, above=0)
    weight_decay: float = limited(0.0, least=0)
    """Coupled (L2) for adam, decoupled for adamw."""
    schedule: Schedule = "constant"
    clip_norm: float | None = limited(None, above=0)
    """Largest norm of the gradient; None leaves it alone."""
    evaluate_every: int = limited(5, above=0)
    """Epochs between two looks at the validation part."""
    patience: int = limited(4, above=0)
    """Stop after so many looks without a better figure."""
    validation_users: int | None = limited(None, above=0)
    """Judge on a fixed sample of so many users; None: all."""
    precision: ComputePrecision = "float32"
    """``bfloat16`` computes dense products in half precision; weights stay float32. On an H200
    it made the MLP's steps 14% faster and LightGCN's 2%, those of MF 5% slower. What LightGCN
    propagates on a CPU is stored in half precision in any case (see
    `cerp.models.backbones.half_propagation`)."""

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class PruneConfig:
    """How the codebooks are pruned to their budgets.

    Searches of other kinds (ESAPN's and OptEmbed's) take epochs, batches and
    the optimizer of the weights from here.
    """

    mode: PruneMode = "scheduled"
    """``scheduled``: a common shift of the thresholds keeps the number of values on a curve
    to the target; ``free``: the paper's dynamics; ``magnitude``: no thresholds and no penalty,
    the largest entries after plain training; ``gradual``: the same along the curve, the smallest
    entries first; to compare the first two with."""
    epochs: int = limited(15, above=0)
    """In how many epochs the tightest target is to be reached; in ``free`` mode, in how many
    thresholds come up to the weights."""
    dense_share: float = limited(0.5, least=0, below=1)
    """``scheduled`` and ``gradual``: the share of the epochs before the first entry is pruned."""
    max_epochs: int = limited(50, above=0)
    """``free`` alone: where it ends, reached or not."""
    batch_size: int | None = limited(None, above=0)
    epoch_size: int | None = limited(None, above=0)
    """As in `TrainConfig`."""
    negatives: int = limited(5, above=0)
    optimizer: Optimizer = "adam"
    learning_rate: float = limited(2e-3, above=0)
    weight_decay: float = limited(0.0, least=0)
    clip_norm: float | None = limited(None, above=0)
    """As in `TrainConfig`; thresholds count too."""
    threshold_learning_rate: float = limited(1e-2, above=0)
    """``scheduled`` alone; ``free`` derives it from ``epochs``."""
    threshold_start: ThresholdStart = "ones"
    threshold_scale: float | None = limited(-100.0, below=0)
    """``free`` alone: what the initial thresholds, in [0, 1], are multiplied by; None: what makes
    the first entry fall half-way through ``epochs`` (`cerp.pruning.clocks.halfway_start`)."""
    penalty: str = "complementary"
    """What is added to the loss while pruning, by its name in `cerp.training.penalties`."""
    gamma: float = limited(1e-3, least=0, most=1)
    """Weight of the penalty in the first epoch."""
    gamma_decay: float = limited(0.5, above=0, most=1)
    """What gamma is multiplied by after every epoch; 1 keeps it."""
    temperature: float = limited(100.0, above=0)
    """η of the penalty."""
    precision: ComputePrecision = "float32"
    """As in `TrainConfig`."""
    on_stall: StallAction = "project"
    """What to do when the number of values stops falling above its target, or epochs run out:
    ``project`` ends pruning and finishes by exact projection; ``stop`` ends the run with an
    error; ``report`` says so, goes on to the last epoch and then projects. A result that was
    projected is marked as not reached."""

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Config:
    """Everything that decides a result, the data aside."""

    method: str = "cerp"
    method_options: dict[str, Any] = field(default_factory=dict)
    backbone: str = "lightgcn"
    backbone_options: dict[str, Any] = field(default_factory=dict)
    budgets: tuple[str, ...] = ("99%",)
    """Of the full table, counts of values, or sizes of the embedding such as 400KB."""
    max_file_size: str | None = None
    """Of the whole model file, such as 2MB; None: any."""
    value_precision: ValuePrecision | None = None
    """Precision of the values in the model file, whose figures are then those of the model;
    None: what validates best under a limit on bytes, fp32 otherwise."""
    store_seen: bool = True
    """Whether model files say what users have seen; LightGCN's always do, by its graph."""
    item_only: bool = False
    """Model files without users: items alone, and whoever asks brings the items that they like."""
    dim: int = limited(128, above=0)
    buckets: int | None = limited(None, above=0)
    """Rows of each codebook; None: by the rule of `cerp.assignment.bucket_rule.bucket_count`."""
    assignment: Assignment = "hash"
    """Which rows an entity gets: by a hash of its place in the order of ids, or by codes that are
    learned from the training graph and stored."""
    codebooks: int | None = limited(None, least=2, most=8)
    """Of learned codes; None: by the rule of `cerp.assignment.code_rule`. The hash has two."""
    teacher: str | None = None
    """Whose final vectors learned codes are made of, and whose preferences are learned: a backbone
    that is trained at full size first, svd, als, the folder of a finished run, or a .npy file."""
    hashing: Hashing = "balanced"
    ordering: str = "spectral"
    rewind: Rewind = "pruned"
    """Retrain from the pruned weights, or from the initial ones under the mask (the paper)."""
    refit: Refit | None = None
    """Train the selected model once more, for its selected number of epochs, on more data."""
    mix: bool | Mix = False
    """Add the graph filter to the scores of vectors, trained ones or those of svd, unless
    validation puts the sum below one of its parts; "sharp": the sharpened filter, unless validation
    likes the plain one as well; "together": the plain one is in the scores while they are trained,
    too."""
    loss: str = "bpr"
    """What training minimises, by its name in `cerp.training.losses`."""
    selection_metric: str = "ndcg@10"
    """What is judged on validation to choose epochs and precisions, such as ``recall@20``."""
    judge_users: int | None = limited(None, above=0)
    """Judge a fixed sample of so many users; None: by `cerp.evaluation.evaluate.users_to_judge`,
    everybody unless they are very many."""
    prune: PruneConfig = field(default_factory=PruneConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self)
        check_seed(self.seed)
        if self.assignment == "hash" and self.codebooks not in (None, 2):
            raise ConfigError(
                f"a hash has two codebooks, not {self.codebooks}; leave codebooks out, or learn "
                "codes: assignment=learned"
            )
        if self.max_file_size is not None:
            parse_size(self.max_file_size, "max_file_size")
        budgets = tuple(str(budget).strip() for budget in self.budgets)
        if not budgets:
            raise ConfigError("give at least one budget, such as '99%'")
        if repeated := [budget for budget in budgets if budgets.count(budget) > 1]:
            raise ConfigError(
                f"budget {repeated[0]!r} is given more than once; give each budget once"
            )
        object.__setattr__(self, "budgets", budgets)  # they name files: no blanks around them

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        # Through JSON: options may hold tuples, which come back from a file as lists.
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Config:
        """The inverse of `to_dict`; unknown keys are refused by name, missing ones are defaults."""
        if isinstance(values, dict):
            values = {RENAMED.get(name, name): value for name, value in values.items()}
        return _built(cls, values, "config")


@dataclass(frozen=True)
class Progress:
    """How far a stretch of training is."""

    share: float
    """Of its steps that are done, 0 to 1."""
    score: float | None
    """The best figure on validation so far; None where there is none yet."""


@dataclass(frozen=True)
class RunOptions:
    """How a run happens; the result does not depend on it (but for float rounding)."""

    device: str = "cpu"
    folder: Path | None = None
    """Where results and checkpoints go; None keeps everything in memory."""
    resume: bool = False
    """Go on with the run that is in the folder; otherwise the folder must not hold one."""
    overwrite: bool = False
    """Remove the run that is in the folder, and train anew."""
    checkpoint_seconds: float = 60.0
    quiet: bool = False
    reads_test: bool = True
    """Whether the test part is judged; among several runs only the one that was chosen is."""
    shared: Path | None = None
    """A folder for what several runs would search alike, as the graph filter's exponents: one of
    them searches, the others read. None: the run searches for itself."""
    watch: Callable[[Progress], str | None] | None = None
    """Asked after every step of training whether to go on: what it answers is why not. The run
    then ends with a `StoppedError`, and can be resumed."""
    callbacks: tuple[Callback, ...] = ()
    """Who is told of stages, epochs and the end."""

    def __post_init__(self) -> None:
        check_device(self.device)
        if self.resume and self.overwrite:
            raise ConfigError("resume=True goes on with a run, overwrite=True removes it: give one")


def check_device(name: str) -> None:
    """Refuse what is not the name of a device that cerp runs on."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name, re.ASCII):
        raise ConfigError(
            f"device is {name!r}; choose cpu, cuda, or one of several GPUs such as cuda:1"
        )


def check_seed(seed: int) -> None:
    """Refuse what is not a seed."""
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"seed is {seed}; give a number from 0 to {LARGEST_SEED:,}")


def doubts(config: Config) -> list[str]:
    """What is possible in a configuration and hardly meant, in words."""
    lowest, highest = LIKELY_LEARNING_RATES
    return [
        f"the learning rate of {stage}, {rate:g}, is {'above' if rate > highest else 'below'} what "
        f"any model here learns with ({lowest:g} to {highest:g}); expect one that "
        + ("diverges" if rate > highest else "stays as it starts")
        for stage, rate in (
            ("pruning", config.prune.learning_rate),
            ("training", config.train.learning_rate),
        )
        if not lowest <= rate <= highest
    ]


def default_batch_size(num_interactions: int) -> int:
    """The power of two that gives at least 64 steps an epoch, between 1,024 and 8,192."""
    size = 1024
    while size < 8192 and num_interactions >= 64 * 2 * size:
        size *= 2
    return size


def differences(first: dict[str, Any], second: dict[str, Any], prefix: str = "") -> list[str]:
    """What two nested dictionaries disagree on, as ``train.epochs: 60 against 30``."""
    found = []
    for key in sorted(first.keys() | second.keys()):
        mine, theirs = first.get(key), second.get(key)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            found += differences(mine, theirs, f"{prefix}{key}.")
        elif mine != theirs:
            found.append(f"{prefix}{key}: {mine!r} against {theirs!r}")
    return found


_T = TypeVar("_T")


def _built(cls: type[_T], values: dict[str, Any], where: str) -> _T:
    if not isinstance(values, dict):
        raise ConfigError(f"{where} is {values!r}; it must be a table of entries")
    hints = get_type_hints(cls)
    known = {entry.name for entry in fields(cls)}  # type: ignore[arg-type]
    if unknown := sorted(values.keys() - known):
        raise ConfigError(
            f"{where} has no entry {unknown[0]!r}; there are: {', '.join(sorted(known))}"
        )
    arguments: dict[str, Any] = {}
    for name, value in values.items():
        kind = hints[name]
        if is_dataclass(kind) and isinstance(kind, type):
            arguments[name] = _built(kind, value, f"{where}.{name}")
        else:
            arguments[name] = tuple(value) if isinstance(value, list) else value
    try:
        return cls(**arguments)
    except (TypeError, ArithmeticError, ValueError, AttributeError) as error:
        raise ConfigError(f"an entry of {where} has a value of the wrong kind: {error}") from None
