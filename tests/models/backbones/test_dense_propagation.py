"""A dense matrix in the place of propagation gives the scores and gradients of propagation."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

from cerp.data.synthetic import synthetic
from cerp.kernels import tiles
from cerp.kernels.tiles import even_parts
from cerp.kernels.triton_there import work_on
from cerp.models.backbones import LightGCN, dense_propagation
from cerp.models.backbones.chosen_rows import stored_as
from cerp.models.backbones.dense_propagation import DensePropagation, DenseRule
from cerp.models.backbones.kernel_scores import distinct, kernel_scores
from cerp.models.batch import Batch
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.training.objective import Objective

NUM_USERS, NUM_ITEMS, DIM, LAYERS = 60, 40, 16, 3
TRAIN = synthetic(NUM_USERS, NUM_ITEMS, 900).split(seed=0).train


def hashed() -> CompositionalEmbedding:
    generator = torch.Generator().manual_seed(0)
    return CompositionalEmbedding(NUM_USERS + NUM_ITEMS, DIM, buckets=15, generator=generator)


def coded() -> CompositionalEmbedding:
    codes = np.random.default_rng(0).integers(0, 6, (NUM_USERS + NUM_ITEMS, 4))
    generator = torch.Generator().manual_seed(0)
    return CompositionalEmbedding(
        NUM_USERS + NUM_ITEMS, DIM, codes=codes, buckets=6, generator=generator
    )


def pruning(embedding: CompositionalEmbedding) -> CompositionalEmbedding:
    embedding.start_pruning(scale=-4.0)
    assert 0 < embedding.nnz < embedding.weight.numel()
    return embedding


def masked(embedding: CompositionalEmbedding) -> CompositionalEmbedding:
    embedding.project(embedding.weight.numel() // 2)
    return embedding


EMBEDDINGS = {
    "dense hash": hashed,
    "pruned hash": lambda: pruning(hashed()),
    "masked hash": lambda: masked(hashed()),
    "pruned codes": lambda: pruning(coded()),
    "masked codes": lambda: masked(coded()),
}


def batch(size: int, device: str = "cpu") -> Batch:
    """Users and items that occur several times."""
    generator = torch.Generator().manual_seed(1)
    users = torch.randint(NUM_USERS // 2, (size,), generator=generator)
    items = torch.randint(NUM_ITEMS, (size, 4), generator=generator)
    return Batch(*(part.to(device) for part in (users, items[:, 0], items[:, 1:])))


def lightgcn(device: str | None, on: str = "cpu") -> LightGCN:
    backbone = LightGCN(TRAIN, embedding_dim=DIM, layers=LAYERS).to(on)
    backbone.dense_on = "nowhere" if device is None else device  # type: ignore[misc]
    return backbone


def loss_and_gradients(
    embedding: CompositionalEmbedding, backbone: LightGCN, size: int, gamma: float
) -> list[torch.Tensor]:
    model = Recommender(embedding, backbone)
    device = str(embedding.weight.device)
    loss = Objective(gamma=gamma, temperature=5.0)(model, batch(size, device), size)
    parameters = [one for one in embedding.parameters() if one.requires_grad]
    return [loss.detach(), *torch.autograd.grad(loss, parameters)]


@pytest.mark.parametrize("make", EMBEDDINGS.values(), ids=EMBEDDINGS.keys())
@pytest.mark.parametrize("size", [3, 500])  # rows of the batch are copied; all rows are taken
def test_in_double_precision_both_ways_are_one(make, size: int, monkeypatch):
    def in_double(graph, composition, layers, num_users):
        return DensePropagation(graph, composition, layers, num_users, torch.float64)

    monkeypatch.setattr("cerp.models.backbones.lightgcn.DensePropagation", in_double)
    monkeypatch.setattr(DenseRule, "is_cheaper", True)
    ways = []
    for device in ("cpu", None):
        backbone = lightgcn(device).double()
        ways.append(loss_and_gradients(make().double(), backbone, size, gamma=0.1))
        assert (backbone._dense is not None) == (device == "cpu")
    for dense, sparse in zip(*ways, strict=True):
        # Thresholds and the graph's values are float32 to begin with.
        torch.testing.assert_close(dense, sparse, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", [3, 500])
@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e8])
def test_half_precision_is_near_at_weights_of_any_size(size: int, factor: float, monkeypatch):
    monkeypatch.setattr(DenseRule, "is_cheaper", True)
    ways = []
    for device, dtype in (("cpu", torch.float32), (None, torch.float64)):
        embedding = hashed().to(dtype)
        embedding.weight.data *= factor
        embedding.weight.data[0] *= 1e-3  # small beside the others, as a rare row's are
        backbone = lightgcn(device).to(dtype)
        data = batch(size)
        scores = Recommender(embedding, backbone)(data).scores
        (gradient,) = torch.autograd.grad((scores / factor**2).sum(), embedding.weight)
        ways.append((scores.detach().double(), gradient.double()))
    for dense, exact in zip(*ways, strict=True):
        assert torch.isfinite(dense).all()
        assert (dense - exact).norm() < 1e-3 * exact.norm()
    gradients = [gradient[0] for _, gradient in ways]
    assert (gradients[0] - gradients[1]).norm() < 2e-3 * gradients[1].norm()


def test_weights_that_are_all_zero_have_scores_of_zero():
    table, scale = stored_as(torch.zeros(2, 2), torch.float16)
    assert table.tolist() == [[0, 0], [0, 0]]
    assert torch.isfinite(scale)


def test_a_process_without_users_has_no_scores_and_no_gradient(monkeypatch):
    monkeypatch.setattr(DenseRule, "is_cheaper", True)
    embedding = hashed()
    scores = Recommender(embedding, lightgcn("cpu"))(batch(0)).scores
    scores.sum().backward()
    assert scores.shape == (0, 4)
    assert not embedding.weight.grad.any()


def test_columns_are_made_a_few_at_a_time_and_are_all_there(monkeypatch):
    backbone, embedding = lightgcn(None), coded()
    sums = embedding.sums_of_rows()
    monkeypatch.setattr(dense_propagation, "COLUMNS_AT_ONCE", 7)
    dense = DensePropagation(backbone.graph, sums.composition, LAYERS, NUM_USERS)
    assert dense.matrix.shape == (NUM_USERS + NUM_ITEMS, 128)
    assert not dense.matrix[:, 24:].any()
    found = dense.matrix[:, :24].float() / dense.scale
    expected = backbone.graph.propagate(sums.composition.table(torch.eye(24)), LAYERS)
    torch.testing.assert_close(found, expected, rtol=2**-11, atol=1e-7)


def test_the_matrix_is_made_once_and_anew_for_other_rows(monkeypatch):
    monkeypatch.setattr(DenseRule, "is_cheaper", True)
    backbone, embedding = lightgcn("cpu"), coded()
    model, data = Recommender(embedding, backbone), batch(50)
    model(data)
    first = backbone._dense
    model(data)
    assert backbone._dense is first
    model.load_state_dict(model.state_dict())  # as at the end of a stage: the same rows
    model(data)
    assert backbone._dense is first
    embedding.recode(np.roll(embedding.codes.numpy(), 1, axis=0))
    dense = model(data).scores
    assert backbone._dense is not first
    sparse = Recommender(embedding, lightgcn(None))(data).scores
    torch.testing.assert_close(dense, sparse, rtol=5e-3, atol=1e-5)


def test_under_autocast_scores_are_those_without(monkeypatch):
    monkeypatch.setattr(DenseRule, "is_cheaper", True)
    model, data = Recommender(hashed(), lightgcn("cpu")), batch(50)
    plain = model(data).scores
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(data).scores
    scores.sum().backward()
    assert torch.equal(scores, plain)


def test_the_matrix_is_no_part_of_the_state_nor_of_copies(monkeypatch):
    monkeypatch.setattr(DenseRule, "is_cheaper", True)
    backbone = lightgcn("cpu")
    Recommender(hashed(), backbone)(batch(50))
    assert backbone._dense[1] is not None
    assert backbone.state_dict() == {}
    assert deepcopy(backbone)._dense is None


def test_a_padding_and_a_cpu_keep_propagation():
    padded = CompositionalEmbedding(NUM_USERS + NUM_ITEMS, DIM, 0, buckets=15)
    assert padded.sums_of_rows() is None
    backbone = LightGCN(TRAIN, embedding_dim=DIM)
    Recommender(hashed(), backbone)(batch(50))
    assert backbone._dense is None


def test_rows_that_are_named_are_found_once_and_in_order():
    rows, places, count = distinct(torch.tensor([7, 2, 7, 0, 2, 5]), 9)
    assert count.tolist() == [4]
    assert rows[:4].tolist() == [0, 2, 5, 7]
    assert places.tolist() == [3, 1, 3, 0, 1, 2]


def gowalla_rule(num_rows: int, sides=((8192, 29858), (49152, 40981))) -> DenseRule:
    class Gowalla:
        num_nodes, values = 70839, range(1438162)

    return DenseRule(Gowalla(), 4, 128, num_rows, sides)


def test_memory_and_traffic_decide(monkeypatch):
    cpu = torch.device("cpu")
    at_99 = gowalla_rule(7878)
    # M with columns in multiples of 128, the users of a batch, and four blocks of 512 columns
    # in float32.
    assert at_99.bytes_needed == 2 * 7936 * (70839 + 8192) + 4 * 4 * 70839 * 512
    monkeypatch.setattr(dense_propagation, "free_memory", lambda _: 2 * at_99.bytes_needed)
    assert at_99.chooses_dense(cpu)
    monkeypatch.setattr(dense_propagation, "free_memory", lambda _: 2 * at_99.bytes_needed - 1)
    assert not at_99.chooses_dense(cpu)
    # 4·8,192 + 2·40,981 rows in half precision against 8 products of 128 columns.
    assert gowalla_rule(25600).is_cheaper
    assert not gowalla_rule(25601).is_cheaper


@pytest.mark.gpu
def test_kernels_give_what_the_vendor_s_products_give():
    if not work_on(torch.device("cuda")):
        pytest.fail("Triton's kernels do not work here; the step then takes longer")
    generator = torch.Generator().manual_seed(0)
    matrix = torch.rand(3000, 640, generator=generator).half().to("cuda")
    weight = torch.randn(600, 128, generator=generator).to("cuda").requires_grad_()
    users = torch.randint(1000, (200,), generator=generator).to("cuda")
    items = torch.randint(2000, (200, 6), generator=generator).to("cuda")
    grad = torch.randn(200, 6, generator=generator).to("cuda")
    scores = kernel_scores(weight, matrix, 3.0, users, items + 1000)
    (gradient,) = torch.autograd.grad(scores, weight, grad)
    vectors = matrix[:, :600].double() / 3 @ weight.double()
    pairs = torch.einsum("bd,bjd->bj", vectors[users], vectors[items + 1000])
    (expected,) = torch.autograd.grad(pairs, weight, grad.double())
    assert (scores - pairs).norm() < 1e-3 * pairs.norm()
    assert (gradient - expected).norm() < 1e-3 * expected.norm()


def test_kernels_are_for_large_matrices_in_half_precision_and_tiles():
    large = torch.empty(1, tiles.FEWEST_COLUMNS, dtype=torch.float16)
    assert tiles.takes(large, 128)
    assert not tiles.takes(large, 100)
    assert not tiles.takes(large, 8)
    assert not tiles.takes(large[:, 1:], 128)
    assert not tiles.takes(large.double(), 128)
    assert not work_on(torch.device("cpu"))


@pytest.mark.parametrize(("tiles", "parts"), [(79, 5), (66, 2), (132, 1), (1, 12)])
def test_parts_fill_the_multiprocessors(tiles: int, parts: int):
    assert even_parts(tiles, 132 if tiles > 1 else 12) == parts


@pytest.mark.gpu
@pytest.mark.parametrize("make", EMBEDDINGS.values(), ids=EMBEDDINGS.keys())
@pytest.mark.parametrize("size", [3, 500])
@pytest.mark.parametrize("fewest_columns", [0, 10**9])  # by Triton's kernels, and without
def test_on_the_gpu_both_ways_are_near(make, size: int, fewest_columns: int, monkeypatch):
    monkeypatch.setattr(DenseRule, "is_cheaper", True)
    monkeypatch.setattr(tiles, "FEWEST_COLUMNS", fewest_columns)
    ways = []
    for device in ("cuda", None):
        backbone = lightgcn(device, "cuda")
        ways.append(loss_and_gradients(make().to("cuda"), backbone, size, gamma=0.1))
        assert (backbone._dense is not None) == (device == "cuda")
    for dense, sparse in zip(*ways, strict=True):
        assert (dense - sparse).norm() <= 2e-3 * sparse.norm()
