"""Communities of the training graph: users and items that interact among themselves.

Louvain's method (Blondel et al., 2008) for the graph of users and items, by its modularity

    Q = Σ_C [ w_C / m  -  γ (k_C / 2m)² ]

with m edges, of which w_C lie within a community C, and the sum k_C of its members' degrees. A
larger resolution γ makes more and smaller communities. Nodes move to the community that gains most;
then every community becomes a node, and so on while Q rises. All nodes of a random half move at a
time, so that a sweep is a few sorts and no loop over nodes; one that would lower Q is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from cerp.assignment.ordering import canonical
from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError

Wide = npt.NDArray[np.float64]

MOST_SWEEPS = 40
"""Of one level."""
PATIENCE = 4
"""Sweeps in a row that may fail to raise the modularity before a level ends."""
LEAST_GAIN = 1e-6
SEARCH_STEPS = 12
"""Of the bisection for a resolution."""
NEAR = 1.02
"""Times the communities asked for: with so few too many, the search ends."""
SMALLEST_RESOLUTION, LARGEST_RESOLUTION = 0.05, 1e5


@dataclass(frozen=True, eq=False)
class _Weighted:
    """A graph of few nodes: each edge once in either direction, loops apart."""

    edges: csr_array
    degree: Wide
    """Loops count twice."""
    inside: Wide
    """Weight of the loop of each node."""

    @cached_property
    def source(self) -> Int64Array:
        """The first node of each edge."""
        return _rows_of(self.edges)

    @property
    def total(self) -> float:
        """m: the weight of all edges."""
        return float(self.degree.sum() / 2)

    def modularity(self, label: Int64Array, resolution: float) -> float:
        """Q of a partition."""
        same = label[self.source] == label[self.edges.indices]
        within = self.edges.data[same].sum() / 2 + self.inside.sum()
        sums = np.bincount(label, self.degree)
        return float(within / self.total - resolution * np.square(sums / (2 * self.total)).sum())

    def joined(self, label: Int64Array) -> _Weighted:
        """Every community as one node."""
        count = int(label.max()) + 1
        between = _members(label).T.tocsr() @ self.edges @ _members(label)
        inside = _sums(label, self.inside, count) + between.diagonal() / 2
        between.setdiag(0)
        between.eliminate_zeros()
        between.sort_indices()
        return _Weighted(between, _sums(label, self.degree, count), inside)


def communities(train: Interactions, *, resolution: float = 1.0, seed: int = 0) -> Int32Array:
    """The community of every entity, users first: 0 is the largest, and so on.

    Everything starts from the canonical order, so renumbering the raw ids changes nothing but
    ties. Entities without interactions are one community, the last.

    Parameters
    ----------
    train
        Training interactions, and nothing else.
    resolution
        γ: the larger, the more communities.
    seed
        Draws which half of the nodes moves.

    """
    if resolution <= 0:
        raise ConfigError(f"the resolution of communities must be above 0, got {resolution}")
    sequence, graph = _connected(train)
    label = _louvain(graph, resolution, np.random.default_rng(seed))
    return _by_entity(label, sequence, train)


def modularity(train: Interactions, label: Int32Array, resolution: float = 1.0) -> float:
    """Q of a partition of all entities, users first."""
    graph = _graph(train, np.arange(train.num_users + train.num_items))
    return graph.modularity(label.astype(np.int64), resolution)


def as_many_communities(train: Interactions, count: int, *, seed: int = 0) -> Int32Array:
    """Communities at a resolution that makes as many as asked for, or as there are, if fewer.

    Bisection finds the coarsest partition that has enough; where it has some too many, the
    smallest join the community that they share most edges with.
    """
    if count < 1:
        raise ConfigError(f"there must be at least 1 community, got {count}")
    sequence, graph = _connected(train)
    if len(sequence) < train.num_users + train.num_items:
        count = max(count - 1, 1)  # the last is that of entities without interactions
    low, high = np.log(SMALLEST_RESOLUTION), np.log(LARGEST_RESOLUTION)
    best: Int64Array | None = None
    for _ in range(SEARCH_STEPS):
        middle = (low + high) / 2
        label = _louvain(graph, float(np.exp(middle)), np.random.default_rng(seed))
        found = int(label.max()) + 1
        if found < count:
            low = middle
            continue
        high = middle
        if best is None or found <= int(best.max()) + 1:
            best = label
        if found <= NEAR * count:
            break
    if best is None:  # not even single entities are enough
        best = label
    return _by_entity(_merged(graph, best, count), sequence, train)


def _connected(train: Interactions) -> tuple[Int64Array, _Weighted]:
    """Entities with interactions, in canonical order, and their graph."""
    sequence = canonical(train)
    degrees = np.concatenate([np.diff(train.user_offsets), train.item_counts])
    sequence = sequence[degrees[sequence] > 0]
    return sequence, _graph(train, sequence)


def _graph(train: Interactions, sequence: Int64Array) -> _Weighted:
    """Users and items as nodes, numbered by their place in the sequence."""
    count = len(sequence)
    place = np.zeros(train.num_users + train.num_items, dtype=np.int64)
    place[sequence] = np.arange(count)
    users, items = place[train.user], place[train.item + np.int64(train.num_users)]
    ends = np.concatenate([users, items]), np.concatenate([items, users])
    edges = csr_array((np.ones(len(ends[0])), ends), shape=(count, count))
    return _Weighted(edges, edges.sum(axis=1), np.zeros(count))


def _louvain(graph: _Weighted, resolution: float, rng: np.random.Generator) -> Int64Array:
    """Levels of moves until none raises the modularity."""
    nodes = np.arange(len(graph.degree))
    while True:
        label = _moved(graph, resolution, rng)
        nodes = label[nodes]
        if int(label.max()) + 1 == len(graph.degree):
            return nodes
        graph = graph.joined(label)


def _moved(graph: _Weighted, resolution: float, rng: np.random.Generator) -> Int64Array:
    """One level: every node starts by itself, and moves while that pays."""
    count = len(graph.degree)
    label = np.arange(count)
    best = graph.modularity(label, resolution)
    share, failures = 0.5, 0
    for _ in range(MOST_SWEEPS):
        wanted = _wanted(graph, label, resolution)
        movers = (wanted != label) & (rng.random(count) < share)
        if not (wanted != label).any():
            break
        tried = np.where(movers, wanted, label)
        score = graph.modularity(tried, resolution)
        if score > best + LEAST_GAIN:
            label, best, failures = tried, score, 0
            share = min(0.5, 1.5 * share)
        else:
            failures += 1
            share /= 2
            if failures == PATIENCE:
                break
    return np.unique(label, return_inverse=True)[1]


def _wanted(graph: _Weighted, label: Int64Array, resolution: float) -> Int64Array:
    """The community that each node would gain most in: ``k_vC - γ k_v k_C / 2m``."""
    sums = np.bincount(label, graph.degree, minlength=len(label))
    toward = graph.edges @ _members(label)
    node, community = _rows_of(toward), toward.indices
    # A community without the node itself, which is there or would be.
    rest = sums[community] - np.where(community == label[node], graph.degree[node], 0.0)
    share = resolution / (2 * graph.total)
    gain = toward.data - share * graph.degree[node] * rest
    stays = -share * graph.degree * (sums[label] - graph.degree)
    own = community == label[node]
    stays[node[own]] = gain[own]
    most = np.full(len(label), -np.inf)
    np.maximum.at(most, node, gain)
    best = np.flatnonzero((gain == most[node]) & (gain > stays[node] + 1e-12))
    wanted = np.full(len(label), len(label))
    np.minimum.at(wanted, node[best], community[best])  # the first of several that are as good
    return np.where(wanted < len(label), wanted, label)


def _merged(graph: _Weighted, label: Int64Array, count: int) -> Int64Array:
    """No more than so many communities: the smallest join those they share most edges with."""
    while (surplus := int(label.max()) + 1 - count) > 0:
        total = int(label.max()) + 1
        sizes = np.bincount(label, minlength=total)
        joined = graph.joined(label)
        smallest = np.argsort(sizes, kind="stable")[:surplus]
        leaves = np.zeros(total, dtype=bool)
        leaves[smallest] = True
        target = np.arange(total)
        # One that shares no edges with those that stay goes to the smallest of them.
        target[smallest] = int(np.flatnonzero(~leaves)[np.argmin(sizes[~leaves])])
        ends = joined.edges.indices
        edges = leaves[joined.source] & ~leaves[ends]
        order = np.lexsort((-ends[edges], joined.edges.data[edges]))
        target[joined.source[edges][order]] = ends[edges][order]
        label = np.unique(target[label], return_inverse=True)[1]
    return label


def _members(label: Int64Array) -> csr_array:
    """A row for each node, with a one in the column of its community."""
    count = len(label)
    return csr_array((np.ones(count), label, np.arange(count + 1)))


def _rows_of(matrix: csr_array) -> Int64Array:
    """The row of each entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _sums(places: Int64Array, values: Wide, count: int) -> Wide:
    """Sums of values by place."""
    return np.bincount(places, values, minlength=count).astype(np.float64)


def _by_entity(label: Int64Array, sequence: Int64Array, train: Interactions) -> Int32Array:
    """Labels by falling size, for entities by number; the last is that of those left out."""
    sizes = np.bincount(label)
    rank = np.empty(len(sizes), dtype=np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes), dtype=np.int32)
    found = np.full(train.num_users + train.num_items, len(sizes), dtype=np.int32)
    found[sequence] = rank[label]
    return found
