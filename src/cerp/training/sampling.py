"""Training batches: shuffled positives, each with fresh negatives, on the training device.

Every batch is a pure function of (seed, epoch, step). So the sampler's whole
state is two integers, a resumed run sees the batches it would have seen, and
the processes of a data-parallel run can each draw the global batch and keep
their slice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from cerp.data.ids import Float32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.sorting import STRETCH, counts_of
from cerp.errors import ConfigError, DataError
from cerp.kernels.triton_there import in_use
from cerp.models.batch import Batch
from cerp.training.ahead import Ahead


class Sampler:
    """All training positives once per epoch in random order, k fresh negatives each.

    Negatives are uniform over the items the user has *not* taken in training,
    exactly and without rejection: with the user's positives sorted as
    p_0 < p_1 < ..., the value p_j - j counts the non-positives before p_j, so
    the r-th non-positive is ``r + #{j : p_j - j <= r}``. That count is one
    binary search, whatever share of the catalogue the user has taken.

    A user who has taken every item has no negatives and is left out;
    `skipped_users` says how many.

    Where interactions have weights w, a pair comes up n·w / Σw times an epoch of n positives, up
    to the next whole number above or below, and so often on average: the loss of an epoch is
    the weighted one, ``Σ_p (n w_p / Σw) · loss_p``, in expectation.

    ``positives`` is for batches of a part: it alone is drawn from, but what
    its users have taken elsewhere is no negative either.
    """

    def __init__(
        self,
        train: Interactions,
        *,
        positives: Interactions | None = None,
        batch_size: int,
        negatives: int = 5,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        if batch_size < 1 or negatives < 1:
            raise ConfigError(
                "a batch needs at least 1 positive and 1 negative, "
                f"got {batch_size} and {negatives}"
            )
        self.batch_size, self.num_negatives, self.seed = batch_size, negatives, seed
        self.device = torch.device(device)
        self.epoch, self.step = 0, 0
        counts = counts_of(train.user, train.num_users)
        has_negatives = counts < train.num_items
        self.skipped_users = int((~has_negatives).sum())
        if self.skipped_users:
            train = train.subset(has_negatives[train.user])
            counts[~has_negatives] = 0
        places = None if positives is None else places_of(positives, train)
        if len(train) == 0 or (places is not None and len(places) == 0):
            raise DataError("there is nothing to train on: no user has both taken and left items")

        self._num_items, self._most = train.num_items, int(counts.max())
        # Not train.user_offsets, which would stay with the data: at 20 million users that counts.
        offsets = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        # user * num_items + (p_j - j), sorted. User and item of every positive can be read
        # off it, so this is all that is kept of the data: 8 bytes an interaction.
        skips = train.keys()
        for start in range(0, len(skips), STRETCH):
            stretch = slice(start, start + STRETCH)
            skips[stretch] -= np.arange(start, start + len(skips[stretch]))
            skips[stretch] += offsets[train.user[stretch]]
        self._offsets = torch.from_numpy(offsets).to(self.device)
        self._skips = torch.from_numpy(skips).to(self.device)
        self._places = None if places is None else torch.from_numpy(places).to(self.device)
        # Where the stretch of each positive ends, when n is shared out by weight.
        self._ends = None if train.weight is None else self._shared_out(train.weight, places)
        self._order: tuple[int, Tensor] | None = None
        self._ahead = Ahead(self.batch, self.device) if self.device.type == "cuda" else None

    def __len__(self) -> int:
        """Batches per epoch; the last one may be smaller."""
        return -(-self._num_positives // self.batch_size)

    def next_batch(self) -> Batch:
        """The batch at the current place, and one step on."""
        make = self.batch if self._ahead is None else self._ahead.take
        batch = make(self.epoch, self.step)
        self.step += 1
        if self.step == len(self):
            self.epoch, self.step = self.epoch + 1, 0
        if self._ahead is not None:
            self._ahead.prepare(self.epoch, self.step)
        return batch

    def __iter__(self) -> Iterator[Batch]:
        """The rest of the current epoch; afterwards the sampler stands at the next one."""
        epoch = self.epoch
        while self.epoch == epoch:
            yield self.next_batch()

    def batch(self, epoch: int, step: int) -> Batch:
        """The batch at one place of the run."""
        order = self._order_of(epoch)
        chosen = order[step * self.batch_size : (step + 1) * self.batch_size]
        chosen = chosen if self._places is None else self._places[chosen]
        if in_use(self._skips.device):
            return self._drawn_by_kernel(chosen, self._generator(epoch, step + 1))
        chosen = chosen.long()
        skips = self._skips[chosen]
        users = skips // self._num_items
        positives = skips - users * self._num_items + (chosen - self._offsets[users])
        negatives = self._negatives(users, self._generator(epoch, step + 1))
        return Batch(users, positives, negatives)

    def state_dict(self) -> dict[str, int]:
        """Where the sampler stands."""
        return {"seed": self.seed, "epoch": self.epoch, "step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go back to where `state_dict` was taken."""
        if state["seed"] != self.seed:
            raise ConfigError(f"the saved sampler has seed {state['seed']}, this one {self.seed}")
        self.epoch, self.step = state["epoch"], state["step"]

    @property
    def _num_positives(self) -> int:
        return len(self._skips if self._places is None else self._places)

    def _drawn_by_kernel(self, chosen: Tensor, generator: torch.Generator) -> Batch:
        """The same to the bit, without two dozen small kernels."""
        from cerp.kernels.draws import drawn_batch

        draw = self._uniform(len(chosen), generator)
        return Batch(
            *drawn_batch(chosen, self._skips, self._offsets, draw, self._num_items, self._most)
        )

    def _uniform(self, count: int, generator: torch.Generator) -> Tensor:
        # float64: uniform to one part in 2^53, against at most 2^31 items.
        shape = (count, self.num_negatives)
        return torch.rand(shape, generator=generator, device=self.device, dtype=torch.float64)

    def _negatives(self, users: Tensor, generator: torch.Generator) -> Tensor:
        start = self._offsets[users]
        free = self._num_items - (self._offsets[users + 1] - start)
        rank = (self._uniform(len(users), generator) * free[:, None]).long()
        key = users[:, None] * self._num_items + rank
        taken_before = torch.searchsorted(self._skips, key, right=True) - start[:, None]
        return rank + taken_before

    def _order_of(self, epoch: int) -> Tensor:
        if self._order is None or self._order[0] != epoch:
            self._order = None  # free the old order before the new one is drawn
            fits = self._num_positives <= torch.iinfo(torch.int32).max
            order = torch.randperm(
                self._num_positives,
                generator=self._generator(epoch, 0),
                device=self.device,
                dtype=torch.int32 if fits else torch.int64,
            )
            if self._ends is not None:
                order = self._drawn_by_weight(epoch, order)
            self._order = (epoch, order)
        return self._order[1]

    def _shared_out(self, weight: Float32Array, places: Int64Array | None) -> Tensor:
        ends = np.cumsum(weight if places is None else weight[places], dtype=np.float64)
        return torch.from_numpy(ends * (len(ends) / ends[-1])).to(self.device)

    def _drawn_by_weight(self, epoch: int, order: Tensor) -> Tensor:
        """Positives at evenly spaced points of the line that the weights share, shuffled."""
        assert self._ends is not None
        generator = generator_at(self.device, self.seed, epoch, 0, 1)
        start = torch.rand((), generator=generator, device=self.device, dtype=torch.float64)
        drawn = torch.searchsorted(self._ends, order.double() + start, right=True)
        # Rounding may put the last point at the very end of the line.
        return drawn.clamp_(max=self._num_positives - 1).to(order.dtype)

    def _generator(self, epoch: int, step: int) -> torch.Generator:
        return generator_at(self.device, self.seed, epoch, step)


def generator_at(device: torch.device, *place: int) -> torch.Generator:
    """Independent randomness for each place of a run, such as (seed, epoch, step)."""
    words = np.random.SeedSequence(place).generate_state(2, np.uint32)
    return torch.Generator(device=device).manual_seed((int(words[0]) << 31) ^ int(words[1]))


def places_of(part: Interactions, whole: Interactions) -> Int64Array:
    """Where in ``whole`` the interactions of a part are; those that are not there are left out."""
    width = max(whole.num_items, 1)
    wanted, keys = (data.user.astype(np.int64) * width + data.item for data in (part, whole))
    return np.flatnonzero(np.isin(keys, wanted, assume_unique=True))
