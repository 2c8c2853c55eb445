from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from cerp.budget import Budget
from cerp.errors import ConfigError
from cerp.methods import dhe
from cerp.methods.dhe import DeepHashEmbedding, codes_of, hidden_width, network_size
from embedding_contract import ALL_IDS, DIM, ENTITIES, EmbeddingContract, seeded

GOWALLA, YELP = 70_839, 116_198


class TestDeepHash(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> DeepHashEmbedding:
        embedding = DeepHashEmbedding(
            ENTITIES, DIM, padding_idx, num_codes=5, hidden=(7, 4), generator=seeded(seed)
        )
        return embedding.eval()

    def fresh(self, padding_idx: int | None = None) -> DeepHashEmbedding:
        return self.build(padding_idx, seed=99)


class TestHonest(TestDeepHash):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> DeepHashEmbedding:
        embedding = DeepHashEmbedding.for_limit(
            ENTITIES,
            DIM,
            130,
            padding_idx=padding_idx,
            accounting="honest",
            num_codes=5,
            layers=2,
            generator=seeded(seed),
        )
        return embedding.eval()


def test_codes_by_hand():
    hashes = torch.tensor([[3, 1], [5, 0], [7, 2_000_003]])  # a, b and p of two hashes
    codes = codes_of(hashes, 4)
    # (3·1 + 5) mod 7 = 1, then 4, 0, 3; the second is k + 1
    expected = torch.tensor([[1, 1], [4, 2], [0, 3], [3, 4]]) * 2 / 999_999 - 1
    torch.testing.assert_close(codes, expected, rtol=0, atol=2e-7)


def test_moduli_are_primes():
    embedding = DeepHashEmbedding(2, 1, num_codes=20, hidden=(1,), generator=seeded())
    factor, offset, prime = embedding.hashes
    divisors = torch.arange(2, 46_341)  # up to √2^31
    assert bool((prime[:, None] % divisors != 0).all())
    assert len(prime.unique()) == 20
    assert bool(((factor >= 1) & (factor < prime) & (offset >= 0) & (offset < prime)).all())


def test_codes_are_the_same_in_every_process():
    script = """if True:
        import torch
        from cerp.methods.dhe import DeepHashEmbedding
        generator = torch.Generator().manual_seed(7)
        embedding = DeepHashEmbedding(9, 2, num_codes=3, hidden=(2,), generator=generator)
        print(embedding.codes.tolist())
    """
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    here = DeepHashEmbedding(9, 2, num_codes=3, hidden=(2,), generator=seeded(7)).codes
    assert there.stdout.decode().strip() == str(here.tolist())


def test_codes_are_uniform_and_tell_all_entities_apart():
    embedding = DeepHashEmbedding(GOWALLA, 1, num_codes=12, hidden=(1,), generator=seeded())
    codes = embedding.codes.numpy()
    assert -1 <= codes.min() < -0.999 < 0.999 < codes.max() <= 1
    assert len(np.unique(codes, axis=0)) == GOWALLA
    # Standard deviation of a mean of N uniform codes: 1 / √(3N) = 0.0022.
    np.testing.assert_allclose(codes.mean(axis=0), 0, atol=0.011)
    np.testing.assert_allclose(codes.var(axis=0), 1 / 3, atol=0.01)


def test_codes_are_neither_learned_nor_saved():
    embedding = TestDeepHash().build()
    assert not embedding.codes.requires_grad
    assert "codes" not in embedding.state_dict()
    assert ENTITIES not in {size for entry in embedding.parameters() for size in entry.shape}


def test_chunks_of_entities_do_not_change_codes_or_vectors(monkeypatch: pytest.MonkeyPatch):
    whole = TestDeepHash().build()
    monkeypatch.setattr(dhe, "ENTITIES_AT_ONCE", 4)
    parts = TestDeepHash().build()
    assert torch.equal(parts.codes, whole.codes)
    torch.testing.assert_close(parts.table(), whole.table())
    torch.testing.assert_close(parts(ALL_IDS), whole.table())


def test_training_normalises_the_table_in_one_piece(monkeypatch: pytest.MonkeyPatch):
    whole = TestDeepHash().build().train()
    expected = whole.table()
    monkeypatch.setattr(dhe, "ENTITIES_AT_ONCE", 4)
    assert torch.equal(whole.table(), expected)
    assert torch.equal(whole(ALL_IDS), expected)


def test_the_network_is_linear_normalised_mish():
    embedding = TestDeepHash().build().train()
    plain = nn.Sequential(
        nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Mish(), nn.Linear(7, 4), nn.BatchNorm1d(4), nn.Mish()
    ).append(nn.Linear(4, DIM))
    for mine, theirs in zip(embedding.network.parameters(), plain.parameters(), strict=True):
        theirs.data.copy_(mine.data)
    torch.testing.assert_close(embedding.table(), plain(embedding.codes))
    torch.testing.assert_close(embedding.eval().table(), plain.eval()(embedding.codes))


def test_training_normalises_by_the_batch_and_evaluation_by_its_averages():
    embedding = TestDeepHash().build().train()
    with torch.no_grad():
        embedding.table()
        assert not torch.allclose(embedding(ALL_IDS[:5]), embedding(ALL_IDS)[:5])
        embedding.eval()
        torch.testing.assert_close(embedding(ALL_IDS[:5]), embedding(ALL_IDS)[:5])
        torch.testing.assert_close(embedding(ALL_IDS[2]), embedding.table()[2])


def test_a_single_entity_can_be_looked_up_in_training():
    embedding = TestDeepHash().build()
    expected = embedding(ALL_IDS[:1])
    torch.testing.assert_close(embedding.train()(ALL_IDS[:1]), expected)


@pytest.mark.parametrize(
    ("entities", "layers", "widths"),
    [
        (GOWALLA, 3, (442, 267, 69)),
        (GOWALLA, 5, (352, 220, 63)),
        (YELP, 3, (619, 385, 107)),
        (YELP, 5, (481, 309, 95)),
    ],
)
def test_the_widths_of_1024_codes(entities: int, layers: int, widths: tuple[int, ...]):
    for share, width in zip(("90%", "95%", "99%"), widths, strict=True):
        limit = Budget.parse(share).limit(entities, 128)
        assert hidden_width(limit, 1024, layers, 128) == width
        w, h, k, d = width + 1, layers, 1024, 128
        size = (k + 1) * w + (h - 1) * (w**2 + w) + (w + 1) * d + 2 * w * h
        assert network_size(k, (w,) * h, d) == size > limit


def test_both_accountings_keep_their_limit():
    on_paper = DeepHashEmbedding.for_limit(500, 16, 500 * 12 + 499)
    honest = DeepHashEmbedding.for_limit(
        500, 16, 5_000, accounting="honest", num_codes=64, layers=3
    )
    # 12 codes into three layers of 128 and 16 outputs; 65w + 2(w² + w) + 16(w + 1) + 6w, w = 32
    weights = 13 * 128 + 2 * 129 * 128 + 129 * 16 + 6 * 128
    assert on_paper.cost() == (6_000, weights)
    assert honest.cost() == (4_912, 4_912)
    assert next(honest.parameters()).shape == (32, 64)


@pytest.mark.parametrize(("accounting", "smallest"), [("paper", "23"), ("honest", "1,047")])
def test_a_limit_that_is_too_small_is_refused_with_the_smallest(accounting, smallest: str):
    # paper: a code for each entity; honest, w = 1: 1025 + 2·2 + 2·6 + 2·3
    with pytest.raises(ConfigError, match=rf"smallest possible budget is {smallest}"):
        DeepHashEmbedding.for_limit(ENTITIES, DIM, 22, accounting=accounting)


def test_a_network_without_codes_or_layers_is_refused():
    with pytest.raises(ConfigError, match="0 codes"):
        DeepHashEmbedding(ENTITIES, DIM, num_codes=0)
    with pytest.raises(ConfigError, match="at least 1 unit"):
        DeepHashEmbedding(ENTITIES, DIM, num_codes=2, hidden=())
    with pytest.raises(ConfigError, match="'free'; choose paper or honest"):
        DeepHashEmbedding(ENTITIES, DIM, num_codes=2, accounting="free")
