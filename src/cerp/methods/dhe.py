"""DHE: no table at all, but a deep network on hash codes of the id."""

from __future__ import annotations

import bisect
import math
from functools import cache
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.errors import BudgetError, ConfigError
from cerp.methods.made_to_fit import MadeToFit
from cerp.models.embeddings.base import Cost, Embedding
from cerp.models.layers import BatchNorm, linear

Accounting = Literal["paper", "honest"]

HASH_BUCKETS = 1_000_000
"""m: each hash takes an id to one of so many numbers."""
PRIMES_FROM, PRIMES_TO = 2**31 - 2**20, 2**31
"""Moduli are primes in this range: above every id, and a·(k + 1) + b stays below 2^63."""
PAPER_HIDDEN = (128, 128, 128)
"""The network where codes are what counts; CERP's authors do not give theirs."""
HONEST_CODES, HONEST_LAYERS = 1024, 3
"""Codes and hidden layers where the network is what counts; 1,024 codes as in the original."""
ENTITIES_AT_ONCE = 1 << 14
"""Entities that are hashed, or in evaluation go through the network, together."""


class DeepHashEmbedding(Embedding):
    """``e_k = network(x_k)``, ``x_ki = 2·h_i(k)/(m − 1) − 1`` (Kang et al., KDD 2021).

    ``h_i(k) = ((a_i·(k + 1) + b_i) mod p_i) mod m`` for i = 1..K, with a prime p_i
    and numbers a_i, b_i of its own for each code (not for each entity: that
    would be no universal hash). Each hidden layer is linear, batch
    normalisation, Mish; the last layer is linear. Codes are computed once from
    3K saved integers and carry no gradient.

    There are two ways to count, and ``accounting`` says which one the budget
    limits: ``paper``, CERP's, N·K stored codes and a free network; ``honest``,
    DHE's own, the network's weights and free codes.

    Batch normalisation in training uses the entities at hand: those of the
    batch in lookups, all N in `table`, which therefore goes through the network
    in one piece. In evaluation, where a vector depends on its own id alone,
    both go through it a part at a time.

    Where we differ: primes are far above m, which keeps the codes uniform.
    Weights start Xavier-uniform and biases zero. Codes are uniform on [-1, 1];
    by the authors' account normal ones perform alike.
    """

    capturable = True

    hashes: Tensor
    codes: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        num_codes: int,
        hidden: tuple[int, ...] = PAPER_HIDDEN,
        accounting: Accounting = "paper",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        if num_codes < 1 or not hidden or min(hidden) < 1:
            raise ConfigError(
                "DHE needs at least 1 code and a hidden layer of at least 1 unit, "
                f"got {num_codes} codes and hidden layers of {hidden}"
            )
        if accounting not in get_args(Accounting):
            raise ConfigError(f"DHE has no accounting {accounting!r}; choose paper or honest")
        self.accounting = accounting
        self.register_buffer("hashes", _drawn_hashes(num_codes, generator))
        self.register_buffer("codes", codes_of(self.hashes, num_embeddings), persistent=False)
        self.network = nn.Sequential()
        for inputs, outputs in pairwise((num_codes, *hidden)):
            self.network.extend([linear(inputs, outputs, generator), BatchNorm(outputs), nn.Mish()])
        self.network.append(linear(hidden[-1], embedding_dim, generator))

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        accounting: Accounting = "paper",
        num_codes: int = HONEST_CODES,
        layers: int = HONEST_LAYERS,
        generator: torch.Generator | None = None,
    ) -> DeepHashEmbedding:
        """``paper``: the most codes, ``K = ⌊t / N⌋``; ``honest``: the widest network that fits.

        ``num_codes`` and the number of hidden ``layers`` are those of the honest network.
        """
        hidden: tuple[int, ...] = PAPER_HIDDEN
        if accounting == "paper":
            num_codes = limit // num_embeddings
            smallest = num_embeddings
        else:
            width = hidden_width(limit, num_codes, layers, embedding_dim)
            hidden = (width,) * layers
            smallest = network_size(num_codes, (1,) * layers, embedding_dim)
        if limit < smallest:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for DHE ({accounting} accounting): "
                f"the smallest possible budget is {smallest:,}"
            )
        return cls(
            num_embeddings,
            embedding_dim,
            padding_idx,
            num_codes=num_codes,
            hidden=hidden,
            accounting=accounting,
            generator=generator,
        )

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        flat = ids.reshape(-1)
        parts = [flat] if self.training else torch.split(flat, ENTITIES_AT_ONCE)
        vectors = torch.cat([self.network(F.embedding(part, self.codes)) for part in parts])
        return self._zero_padding(vectors.view(*ids.shape, self.embedding_dim), ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        parts = [self.codes] if self.training else torch.split(self.codes, ENTITIES_AT_ONCE)
        return self._zero_padding(torch.cat([self.network(part) for part in parts]))

    @property
    def nnz(self) -> int:
        """What the accounting counts: N·K codes, or the network's weights."""
        return self.codes.numel() if self.accounting == "paper" else self.cost().stored_count

    def cost(self) -> Cost:
        """What the accounting counts, and the network's weights."""
        stored = sum(parameter.numel() for parameter in self.network.parameters())
        return Cost(self.codes.numel() if self.accounting == "paper" else stored, stored)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        codes = codes_of(self.hashes, self.num_embeddings)
        self.codes = codes.to(self.codes.device, self.codes.dtype)


def codes_of(hashes: Tensor, num_embeddings: int) -> Tensor:
    """``x_ki`` of all entities, (N, K) in [-1, 1], from the rows a, b, p of ``hashes``."""
    factor, offset, prime = hashes
    codes = torch.empty(num_embeddings, hashes.shape[1], device=hashes.device)
    for start, into in zip(
        range(0, num_embeddings, ENTITIES_AT_ONCE),
        torch.split(codes, ENTITIES_AT_ONCE),
        strict=True,
    ):
        k = torch.arange(start, start + len(into), device=hashes.device)[:, None]
        hashed = (factor * (k + 1) + offset) % prime % HASH_BUCKETS
        into.copy_(hashed * (2 / (HASH_BUCKETS - 1)) - 1)
    return codes


def network_size(num_codes: int, hidden: tuple[int, ...], embedding_dim: int) -> int:
    """``Σ (n_in + 1)·n_out`` over all linear layers, and ``2w`` for each normalisation."""
    sizes = (num_codes, *hidden, embedding_dim)
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes)) + 2 * sum(hidden)


def hidden_width(limit: int, num_codes: int, layers: int, embedding_dim: int) -> int:
    """The largest width w of all hidden layers with a network of at most ``limit`` weights.

    0 where even w = 1 is too much.
    """

    def size(width: int) -> int:
        return network_size(num_codes, (width,) * layers, embedding_dim)

    # Each unit has its weight from every code, so w is below t / K.
    return bisect.bisect_right(range(1, limit // num_codes + 1), limit, key=size)


def _drawn_hashes(num_codes: int, generator: torch.Generator | None) -> Tensor:
    """a, b and p of each hash: 1 <= a < p, 0 <= b < p, all primes different."""
    primes = torch.from_numpy(_primes())
    if num_codes > len(primes):
        raise ConfigError(f"DHE has primes for {len(primes):,} codes, not for {num_codes:,}")
    prime = primes[torch.randperm(len(primes), generator=generator)[:num_codes]]
    # float64 is exact to 2^53, and all numbers are below 2^31.
    share = torch.rand(2, num_codes, generator=generator, dtype=torch.float64)
    factor, offset = 1 + (share[0] * (prime - 1)).long(), (share[1] * prime).long()
    return torch.stack([factor, offset, prime])


@cache
def _primes() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The primes between `PRIMES_FROM` and `PRIMES_TO`, by a sieve."""
    is_prime = np.ones(PRIMES_TO - PRIMES_FROM, dtype=bool)
    small = np.ones(math.isqrt(PRIMES_TO) + 1, dtype=bool)
    for divisor in range(2, len(small)):
        if small[divisor]:
            small[2 * divisor :: divisor] = False
            is_prime[-PRIMES_FROM % divisor :: divisor] = False
    return PRIMES_FROM + np.flatnonzero(is_prime)


class Dhe(MadeToFit):
    """A network on hash codes; ``accounting``: paper or honest."""

    embedding_class = DeepHashEmbedding
    # Each process would normalise by the entities of its own part of the batch.
    is_parallel = False
