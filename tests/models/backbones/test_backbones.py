from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cerp.data.ids import Ids, Int32Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.models import backbones
from cerp.models.backbones import BACKBONES, Backbone, BatchOutput, LightGCN, TorchScorer, mlp
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.training.penalties import complementary

NUM_USERS, NUM_ITEMS, DIM = 4, 6, 8
NUM_ENTITIES = NUM_USERS + NUM_ITEMS
TRAIN = Interactions.from_codes(
    [0, 0, 1, 2, 2, 2],
    [1, 3, 3, 0, 1, 5],
    users=Ids.range(NUM_USERS),
    items=Ids.range(NUM_ITEMS),
)
USERS = torch.tensor([2, 0, 2])
ITEMS = torch.tensor([[5, 4], [1, 5], [0, 5]])
ALL_NAMES = ["lightgcn", "mf", "mlp"]


def full_table() -> FullEmbedding:
    return FullEmbedding(NUM_ENTITIES, DIM, generator=torch.Generator().manual_seed(1))


def create(name: str, seed: int = 0, **options: object) -> Backbone:
    generator = torch.Generator().manual_seed(seed)
    return backbones.create(name, TRAIN, embedding_dim=DIM, generator=generator, **options)


def all_pairs(backbone: Backbone, embedding: Embedding) -> Tensor:
    items = torch.arange(NUM_ITEMS).expand(NUM_USERS, -1)
    scores: Tensor = backbone(embedding, torch.arange(NUM_USERS), items).scores
    return scores.detach()


@pytest.mark.parametrize("name", ALL_NAMES)
def test_full_ranking_gives_the_scores_of_training(name: str):
    backbone, embedding = create(name), full_table()
    users = np.array([3, 0, 1], dtype=np.int32)
    ranked = backbone.scorer(embedding).score_all(users)
    assert not ranked.requires_grad
    torch.testing.assert_close(ranked, all_pairs(backbone, embedding)[[3, 0, 1]])


@pytest.mark.parametrize("name", ALL_NAMES)
def test_read_only_user_codes_can_be_scored(name: str):
    users = np.arange(2, dtype=np.int32)
    users.flags.writeable = False
    assert create(name).scorer(full_table()).score_all(users).shape == (2, NUM_ITEMS)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_zero_vectors_give_finite_scores_and_gradients(name: str):
    backbone, embedding = create(name), full_table()
    embedding.weight.data.zero_()
    scores = backbone(embedding, USERS, ITEMS).scores
    scores.sum().backward()
    assert torch.isfinite(scores).all()
    assert embedding.weight.grad is not None
    assert torch.isfinite(embedding.weight.grad).all()


@pytest.mark.parametrize("name", ALL_NAMES)
def test_repeated_passes_agree_in_every_bit(name: str):
    backbone, embedding = create(name), full_table()

    def pass_through() -> tuple[Tensor, Tensor]:
        scores = backbone(embedding, USERS, ITEMS).scores
        (gradient,) = torch.autograd.grad(scores.square().sum(), embedding.weight)
        return scores, gradient

    assert all(map(torch.equal, pass_through(), pass_through()))


@pytest.mark.parametrize("name", ALL_NAMES)
def test_scores_have_the_right_gradient(name: str):
    backbone, embedding = create(name).double(), full_table().double()
    assert torch.autograd.gradcheck(
        lambda _: backbone(embedding, USERS, ITEMS).scores, embedding.weight
    )


@pytest.mark.parametrize("name", ["mf", "mlp"])
def test_the_penalty_looks_at_the_gathered_vectors_and_counts_each_user_once(name: str):
    embedding = full_table()
    vectors = create(name)(embedding, USERS, ITEMS).vectors()
    gathered = [2, 0, 2, *(NUM_USERS + item for item in (5, 4, 1, 5, 0, 5))]
    assert torch.equal(torch.cat(vectors.blocks, dim=1), embedding.weight[gathered])
    # User 2 stands in two places, each of which counts a half.
    assert vectors.counts.tolist() == [0.5, 1, 0.5, 1, 1, 1, 1, 1, 1]


def test_the_penalty_of_lightgcn_looks_at_the_table_before_propagation():
    embedding, backbone = full_table(), create("lightgcn")
    assert isinstance(backbone, LightGCN)
    vectors, nodes = backbone(embedding, USERS, ITEMS).vectors(), backbone.graph.nodes
    assert torch.equal(torch.cat(vectors.blocks, dim=1)[nodes], embedding.weight)
    users, items = vectors.counts[nodes].split([NUM_USERS, NUM_ITEMS])
    assert users.tolist() == [1, 0, 1, 0]
    assert items.tolist() == [1, 1, 0, 0, 1, 3]


def test_all_backbones_count_the_same_penalty():
    embedding = full_table()
    outputs = [create(name)(embedding, USERS, ITEMS) for name in ALL_NAMES]
    penalties = [complementary(output.vectors(), 3.0).item() for output in outputs]
    assert penalties == pytest.approx([penalties[0]] * 3, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "head", "layers"), [("mf", "dot", 0), ("mlp", "tower", 0), ("lightgcn", "dot", 4)]
)
def test_a_backbone_says_how_it_is_served(name: str, head: str, layers: int):
    backbone = create(name)
    assert (backbone.head, backbone.layers) == (head, layers)
    assert Backbone.head is None


def test_mf_scores_are_dot_products():
    embedding = full_table()
    users, items = embedding.weight.detach().split([NUM_USERS, NUM_ITEMS])
    torch.testing.assert_close(all_pairs(create("mf"), embedding), users @ items.T)


def test_lightgcn_scores_are_dot_products_of_neighbourhood_means():
    # One layer: user 1 has item 3 alone (degree 2), so Â = 1/√2 between them and
    # item 3 also hears user 0 (degree 2) with 1/√(2·2).
    embedding = full_table()
    e = embedding.weight.detach()
    user, item = e[1] + e[NUM_USERS + 3] / 2**0.5, e[NUM_USERS + 3] + e[1] / 2**0.5 + e[0] / 2
    score = all_pairs(create("lightgcn", layers=1), embedding)[1, 3]
    torch.testing.assert_close(score, (user / 2) @ (item / 2))


def test_mlp_is_the_plain_tower_on_concatenated_vectors():
    tower, embedding = create("mlp", reference_dim=16), full_table()
    assert isinstance(tower, mlp.MLP)
    torch.nn.init.normal_(tower.first.bias, generator=torch.Generator().manual_seed(2))
    plain = nn.Sequential(nn.Linear(2 * DIM, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
    plain.extend([nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1)])
    for mine, theirs in zip(tower.parameters(), plain.parameters(), strict=True):
        theirs.data.copy_(mine.data)
    users, items = embedding.weight.detach().split([NUM_USERS, NUM_ITEMS])
    pairs = torch.cat(
        [users[:, None].expand(-1, NUM_ITEMS, -1), items.expand(NUM_USERS, -1, -1)], dim=-1
    )
    torch.testing.assert_close(all_pairs(tower, embedding), plain(pairs).squeeze(-1).detach())


def test_mlp_widths_halve_from_twice_the_reference_dimension_whatever_the_embedding_has():
    assert mlp.hidden_widths(128) == (128, 64, 32)
    shapes = [tuple(weight.shape) for weight in create("mlp").parameters() if weight.dim() == 2]
    assert shapes == [(128, 2 * DIM), (64, 128), (32, 64), (1, 32)]


def normalised() -> mlp.MLP:
    """A tower with batch norm that has seen a few batches."""
    tower = create("mlp", hidden=(8, 16, 24), batch_norm=True)
    assert isinstance(tower, mlp.MLP)
    for norm in tower.norms:
        nn.init.uniform_(norm.weight, 0.5, 2, generator=torch.Generator().manual_seed(3))
        nn.init.normal_(norm.bias, generator=torch.Generator().manual_seed(4))
    embedding = full_table()
    for _ in range(5):
        tower.train()(embedding, USERS, ITEMS)
    return tower.eval()


def test_mlp_can_have_other_widths():
    tower = create("mlp", hidden=(8, 16))
    shapes = [tuple(weight.shape) for weight in tower.parameters() if weight.dim() == 2]
    assert shapes == [(8, 2 * DIM), (16, 8), (1, 16)]
    for wrong in ((), (0, 4), (8.5,)):
        with pytest.raises(ConfigError, match=r"hidden is .*give the width of each hidden layer"):
            create("mlp", hidden=wrong)


def test_mlp_with_batch_norm_is_the_plain_tower_with_it():
    tower, embedding = normalised(), full_table()
    plain = nn.Sequential()
    for layer, norm in zip((tower.first, *tower.rest), (*tower.norms, None), strict=True):
        plain.extend([layer] if norm is None else [layer, norm, nn.ReLU()])
    users, items = embedding.weight.detach().split([NUM_USERS, NUM_ITEMS])
    pairs = torch.cat([users.repeat_interleave(NUM_ITEMS, 0), items.repeat(NUM_USERS, 1)], dim=1)
    expected = plain(pairs).view(NUM_USERS, NUM_ITEMS).detach()
    torch.testing.assert_close(all_pairs(tower, embedding), expected)


def test_batch_norm_is_folded_into_the_layers_that_are_shipped():
    tower, embedding = normalised(), full_table()
    twin = create("mlp", seed=9, hidden=(8, 16, 24), batch_norm=True).eval()
    twin.load_state_dict(tower.shipped_weights())
    assert list(tower.shipped_weights()) == list(create("mlp").state_dict())
    torch.testing.assert_close(
        all_pairs(twin, embedding), all_pairs(tower, embedding), rtol=1e-4, atol=1e-6
    )


def test_networks_are_as_wide_as_for_the_full_dimension():
    tower = backbones.create("mlp", TRAIN, embedding_dim=3, reference_dim=16)
    assert tuple(next(tower.parameters()).shape) == (16, 6)
    plain = backbones.create("mf", TRAIN, embedding_dim=3, reference_dim=16)
    assert not list(plain.parameters())


def test_mlp_ranks_alike_in_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch):
    backbone, users = create("mlp"), np.arange(3, dtype=np.int32)
    scorer = backbone.scorer(full_table())
    whole, sizes = scorer.score_all(users), list[int]()
    tower = mlp.MLP.tower

    def measured(own: mlp.MLP, sums: torch.Tensor) -> torch.Tensor:
        sizes.append(sums.nbytes)
        return tower(own, sums)

    monkeypatch.setattr(mlp.MLP, "tower", measured)
    # 3 users of width 128 in float32 are 1,536 bytes for each item of a block.
    for allowed, largest in ((1, 1536), (2 * 1536, 2 * 1536), (4 * 1536 + 1, 4 * 1536)):
        monkeypatch.setitem(mlp.SCORING_BYTES, "cpu", allowed)
        torch.testing.assert_close(scorer.score_all(users), whole)
        assert max(sizes[-2:]) <= largest == max(sizes)


def test_mlp_starts_from_its_generator_alone():
    before = torch.get_rng_state()
    first, second, other = (create("mlp", seed) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, first.parameters(), second.parameters()))
    assert not torch.equal(next(first.parameters()), next(other.parameters()))


def test_mlp_starts_with_xavier_weights_and_zero_biases():
    for layer in (layer for layer in create("mlp").modules() if isinstance(layer, nn.Linear)):
        bound = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.5 * bound < layer.weight.abs().max() <= bound
        assert not layer.bias.any()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gnn", {}, "unknown backbone 'gnn'; choose one of lightgcn, mf, mlp"),
        ("mf", {"layers": 2}, "'mf' has no option 'layers'; its options: none"),
        ("lightgcn", {"depth": 2}, "no option 'depth'; its options: layers"),
        ("lightgcn", {"layers": 0}, "at least 1 layer, got 0; without propagation it is 'mf'"),
        ("mlp", {"reference_dim": 3}, "at least 4, got 3"),
    ],
)
def test_what_cannot_be_created_is_refused_with_what_can(
    name: str, options: dict[str, float], message: str
):
    with pytest.raises(ConfigError, match=message):
        create(name, **options)


class Bias(Backbone):
    """A stranger's backbone: the same score for everybody."""

    def __init__(self, train, *, embedding_dim, generator=None, value=1.0):
        super().__init__(train, embedding_dim=embedding_dim)
        self.value = value

    def forward(self, embedding: Embedding, users: Tensor, items: Tensor) -> BatchOutput:
        scores = torch.full(items.shape, self.value)
        return BatchOutput(scores)

    def scorer(self, embedding: Embedding) -> TorchScorer:
        return self

    def score_all(self, users: Int32Array) -> Tensor:
        return torch.full((len(users), self.num_items), self.value)


@pytest.fixture
def bias_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BACKBONES, "_parts", dict(BACKBONES._parts))
    backbones.register("bias")(Bias)


@pytest.mark.usefixtures("bias_is_registered")
def test_a_backbone_of_others_is_created_by_its_name_with_its_own_options():
    backbone = create("bias", value=3.0)
    assert backbones.names() == ["bias", "lightgcn", "mf", "mlp"]
    assert torch.equal(all_pairs(backbone, full_table()), torch.full((4, 6), 3.0))


@pytest.mark.usefixtures("bias_is_registered")
def test_a_name_is_given_once():
    with pytest.raises(ConfigError, match="there is a backbone 'bias' already"):
        backbones.register("bias")(Bias)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ALL_NAMES)
def test_on_the_gpu_outputs_are_those_of_the_cpu(name: str):
    def outputs(device: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
        backbone, embedding = create(name).to(device, dtype), full_table().to(device, dtype)
        output = backbone(embedding, USERS.to(device), ITEMS.to(device))
        users = np.arange(NUM_USERS, dtype=np.int32)
        scores = backbone.scorer(embedding).score_all(users)
        vectors = output.vectors()
        return output.scores, torch.cat(vectors.blocks, dim=1), vectors.counts, scores

    # In float32 LightGCN would store half precision on the CPU.
    exact, found = outputs("cpu", torch.float64), outputs("cuda", torch.float32)
    for on_cpu, on_gpu in zip(exact, found, strict=True):
        torch.testing.assert_close(
            on_cpu.detach().float(), on_gpu.detach().cpu(), rtol=1e-5, atol=1e-5
        )
