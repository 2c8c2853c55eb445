"""Training batches: shuffled positives, each with fresh negatives, on the training device.

Every batch is a pure function of (seed, epoch, step): epochs cut a line of passes
over all positives. So the sampler's whole state is two integers, a resumed run
sees the batches it would have seen, and each process of a data-parallel run draws
the rows of its own users to the same bit as one process that draws all. A GPU
draws a block of batches at once, for launching the kernels that draw takes longer
than running them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cerp.data.ids import Int64Array
from cerp.data.interactions import Interactions
from cerp.data.sorting import counts_of
from cerp.errors import ConfigError, DataError
from cerp.kernels.triton_there import in_use
from cerp.models.batch import Batch
from cerp.training.ahead import Ahead
from cerp.training.epoch_order import EpochOrder, epoch_order
from cerp.training.shares import Share, cuts_by_weight, share_of, skips_of

GPU_BLOCK = 1 << 17
"""Positives that a GPU draws together: 16 batches of 8,192, 6 MB with 5 negatives each."""


class Sampler:
    """All training positives once per pass in random order, k fresh negatives each.

    An epoch is a pass, or, with ``epoch_size``, so many positives in whole batches. It then goes on
    where the one before it stopped, so that no positive comes twice before all have come once.

    Negatives are uniform over the items the user has *not* taken in training,
    exactly and without rejection: with the user's positives sorted as
    p_0 < p_1 < ..., the value p_j - j counts the non-positives before p_j, so
    the r-th non-positive is ``r + #{j : p_j - j <= r}``. That count is one
    binary search, whatever share of the catalogue the user has taken.

    A user who has taken every item has no negatives and is left out;
    `skipped_users` says how many.

    Where interactions have weights w, a pair comes up n·w / Σw times a pass of n positives, up
    to the next whole number above or below, and so often on average: the loss of a pass is
    the weighted one, ``Σ_p (n w_p / Σw) · loss_p``, in expectation.

    ``positives`` is for batches of a part: it alone is drawn from, but what
    its users have taken elsewhere is no negative either.

    ``share`` is the rank of a process and how many there are: what the sampler holds is then
    that of its own users, and so are the rows that it draws of each global batch, perhaps none.
    """

    def __init__(
        self,
        train: Interactions,
        *,
        positives: Interactions | None = None,
        share: tuple[int, int] = (0, 1),
        batch_size: int,
        epoch_size: int | None = None,
        negatives: int = 5,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        if batch_size < 1 or negatives < 1:
            raise ConfigError(
                "a batch needs at least 1 positive and 1 negative, "
                f"got {batch_size} and {negatives}"
            )
        if epoch_size is not None and epoch_size < 1:
            raise ConfigError(f"an epoch needs at least 1 positive, got {epoch_size}")
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

        self._num_items, self._is_shared = train.num_items, share[1] > 1
        own = share_of(counts, *share)
        self._hold(train, own, counts[own.users])
        self._draw_from(train, own, places)
        self._pass_length = -(-self._num_positives // batch_size)
        self._length = -(-(epoch_size or self._num_positives) // batch_size)
        self._pass: _Pass | None = None
        is_gpu = self.device.type == "cuda"
        # Where rows are shared out, how many of a batch are of this share is known only once drawn.
        self._together = max(GPU_BLOCK // batch_size, 1) if is_gpu and not self._is_shared else 1
        self._ahead = Ahead(self.block, self.device) if is_gpu else None
        self._block: tuple[tuple[int, int], list[Batch]] | None = None

    def _hold(self, train: Interactions, own: Share, counts: Int64Array) -> None:
        """Keep the pairs of the share, whose users are counted from its first in what follows."""
        self._first_user, self._most = own.users.start, int(counts.max(initial=0))
        # Not train.user_offsets, which would stay with the data: at 20 million users that counts.
        offsets = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self._offsets = torch.from_numpy(offsets).to(self.device)
        self._skips = torch.from_numpy(skips_of(train, own, offsets)).to(self.device)

    def _draw_from(self, train: Interactions, own: Share, places: Int64Array | None) -> None:
        """Keep which of a pass's positives are of the share: all, or those at some places."""
        weight, drawn_from = train.weight, own.rows
        self._num_positives = len(train) if places is None else len(places)
        self._places: Tensor | None = None
        if places is not None:
            weight = None if weight is None else weight[places]
            drawn_from = slice(*np.searchsorted(places, [own.rows.start, own.rows.stop]).tolist())
            mine = places[drawn_from] - own.rows.start
            self._places = torch.from_numpy(mine).to(self.device)
        self._first, self._count = drawn_from.start, drawn_from.stop - drawn_from.start
        self._cuts: Tensor | None = None
        if weight is not None:
            self._cuts = torch.from_numpy(cuts_by_weight(weight, drawn_from)).to(self.device)

    def __len__(self) -> int:
        """Batches per epoch; the last one of a pass may be smaller."""
        return self._length

    def size_at(self, epoch: int, step: int) -> int:
        """Positives in the global batch of a step, those of other shares included."""
        _, step = self._place(epoch, step)
        return min(self.batch_size, self._num_positives - step * self.batch_size)

    def _place(self, epoch: int, step: int) -> tuple[int, int]:
        """Which batch of which pass a step is."""
        return divmod(epoch * self._length + step, self._pass_length)

    def next_batch(self) -> Batch:
        """The batch at the current place, and one step on."""
        batch = self.batch(self.epoch, self.step)
        self.step += 1
        if self.step == len(self):
            self.epoch, self.step = self.epoch + 1, 0
        return batch

    def __iter__(self) -> Iterator[Batch]:
        """The rest of the current epoch; afterwards the sampler stands at the next one."""
        epoch = self.epoch
        while self.epoch == epoch:
            yield self.next_batch()

    def batch(self, epoch: int, step: int) -> Batch:
        """The batch at one place of the run, or the share's rows of it."""
        turn, step = self._place(epoch, step)
        number, place = divmod(step, self._together)
        if self._block is None or self._block[0] != (turn, number):
            draw = self.block if self._ahead is None else self._ahead.take
            self._block = (turn, number), draw(turn, number)
            if self._ahead is not None:
                is_last = (number + 1) * self._together >= self._pass_length
                self._ahead.prepare(*((turn + 1, 0) if is_last else (turn, number + 1)))
        return self._block[1][place]

    def block(self, turn: int, number: int) -> list[Batch]:
        """Some batches in a row of a pass, which are drawn together: on CPUs one."""
        size = self._together * self.batch_size
        chosen = self._chosen(turn, slice(number * size, (number + 1) * size))
        uniform = self._uniform(len(chosen), generator_at(self.device, self.seed, turn, number + 1))
        if self._is_shared:
            rows = torch.nonzero((chosen >= 0) & (chosen < self._count)).flatten()
            chosen, uniform = chosen[rows], uniform[rows]
        if self._places is not None:
            chosen = self._places[chosen]
        batches = self._drawn(chosen, uniform)
        if self._first_user:
            for batch in batches:
                batch.users.add_(self._first_user)
        return batches

    def state_dict(self) -> dict[str, int]:
        """Where the sampler stands."""
        return {"seed": self.seed, "epoch": self.epoch, "step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go back to where `state_dict` was taken."""
        if state["seed"] != self.seed:
            raise ConfigError(f"the saved sampler has seed {state['seed']}, this one {self.seed}")
        self.epoch, self.step = state["epoch"], state["step"]

    def _chosen(self, turn: int, places: slice) -> Tensor:
        """Numbers of the positives at some places of a pass, from the first of the share on.

        Those of other shares are below zero, or beyond the last of the share.
        """
        if self._pass is None or self._pass.number != turn:
            self._pass = None  # free the old order before the new one is drawn
            self._pass = self._begun(turn)
        numbers = self._pass.order.at(places)
        if self._cuts is not None:
            # At evenly spaced points of the line that the weights share, shuffled.
            points = numbers.double() + self._pass.first_point
            return torch.searchsorted(self._cuts, points, right=True) - 1
        return numbers - self._first if self._is_shared else numbers

    def _begun(self, turn: int) -> _Pass:
        order = epoch_order(self._num_positives, generator_at(self.device, self.seed, turn, 0))
        generator = generator_at(self.device, self.seed, turn, 0, 1)
        first_point = torch.rand((), generator=generator, device=self.device, dtype=torch.float64)
        return _Pass(turn, order, first_point)

    def _drawn(self, chosen: Tensor, uniform: Tensor) -> list[Batch]:
        """Positives by their numbers, with negatives by uniform draws."""
        if in_use(self._skips.device):
            # The same to the bit, without two dozen small kernels.
            from cerp.kernels.draws import drawn_batches

            given = chosen, self._skips, self._offsets, uniform, self._num_items, self._most
            return [Batch(*parts) for parts in drawn_batches(*given, self.batch_size)]
        chosen = chosen.long()
        skips = self._skips[chosen]
        users = skips // self._num_items
        positives = skips - users * self._num_items + (chosen - self._offsets[users])
        every = users, positives, self._negatives(users, uniform)
        # A batch without rows is one, too: all of its rows may be of other shares.
        parts = [torch.split(part, self.batch_size) if len(part) else (part,) for part in every]
        return [Batch(*batch) for batch in zip(*parts, strict=True)]

    def _uniform(self, count: int, generator: torch.Generator) -> Tensor:
        # float64: uniform to one part in 2^53, against at most 2^31 items.
        shape = (count, self.num_negatives)
        return torch.rand(shape, generator=generator, device=self.device, dtype=torch.float64)

    def _negatives(self, users: Tensor, uniform: Tensor) -> Tensor:
        start = self._offsets[users]
        free = self._num_items - (self._offsets[users + 1] - start)
        rank = (uniform * free[:, None]).long()
        key = users[:, None] * self._num_items + rank
        taken_before = torch.searchsorted(self._skips, key, right=True) - start[:, None]
        return rank + taken_before


class _Pass(NamedTuple):
    number: int
    order: EpochOrder
    first_point: Tensor
    """Of those that draw by weight: between 0 and 1."""


def generator_at(device: torch.device, *place: int) -> torch.Generator:
    """Independent randomness for each place of a run, such as (seed, pass, batch)."""
    words = np.random.SeedSequence(place).generate_state(2, np.uint32)
    return torch.Generator(device=device).manual_seed((int(words[0]) << 31) ^ int(words[1]))


def places_of(part: Interactions, whole: Interactions) -> Int64Array:
    """Where in ``whole`` the interactions of a part are; those that are not there are left out."""
    width = max(whole.num_items, 1)
    wanted, keys = (data.user.astype(np.int64) * width + data.item for data in (part, whole))
    return np.flatnonzero(np.isin(keys, wanted, assume_unique=True))
