"""The codes inside a .cerp file, each by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cerp.artifact import bits, edges, numbers, order_bytes, table_bytes
from cerp.artifact.bits import pack_planes, unpack_planes
from cerp.artifact.deflate import deflate, inflate
from cerp.artifact.edges import decode_seen, encode_seen
from cerp.artifact.fields import Fields
from cerp.artifact.model import Seen
from cerp.artifact.names import decode_ids, encode_ids
from cerp.artifact.numbers import LARGEST_NUMBER, decode_numbers, encode_numbers
from cerp.artifact.permutation import decode_permutation, encode_permutation
from cerp.artifact.positions import decode_positions, encode_positions
from cerp.artifact.quantize import VALUES_CODECS, decode_values, encode_values
from cerp.artifact.tensors import TensorReader, total_bytes
from cerp.data.ids import Ids
from cerp.errors import ConfigError, MalformedFileError
from cerp.naming import prefixed
from plain_decoder import permutation as plain_permutation

seeds = st.integers(0, 2**32 - 1)
masks = arrays.arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)))


def test_bit_planes_of_three_numbers():
    # 5 = 101b in 3 bits, 1 in 1 bit, 2 = 10b in 2 bits; plane 0: 1 1 0, plane 1: 0 1, plane 2: 1.
    packed = pack_planes(np.array([5, 1, 2]), np.array([3, 1, 2]))
    assert packed.tolist() == [0b110011]
    assert unpack_planes(packed, np.array([3, 1, 2]), what="it").tolist() == [5, 1, 2]


def test_classes_and_extra_bits_of_small_numbers():
    # x = v + 4: 4 5 6 7 have e = 0; 8..15 have e = 1, so 4, 5 share class 4 and 6, 7 class 5.
    coded = encode_numbers(np.array([0, 3, 4, 5, 7, 12]))
    assert list(inflate(coded["classes"], 6, what="it")) == [0, 3, 4, 4, 5, 8]
    # Extra: plane 0 of 4, 5, 7 and 12 (e = 2, extra 0): 0 1 1 0; plane 1 of 12: 0.
    assert coded["extra"].tolist() == [0b0110]


@given(st.lists(st.integers(0, LARGEST_NUMBER)))
def test_numbers_come_back(numbers: list[int]):
    coded = encode_numbers(np.array(numbers, dtype=np.int64))
    assert decode_numbers(TensorReader(coded), len(numbers)).tolist() == numbers


def test_a_class_beyond_64_bits_is_refused():
    forged = {"classes": deflate(bytes([244])), "extra": np.zeros(8, dtype=np.uint8)}
    with pytest.raises(MalformedFileError, match="class above 243"):
        decode_numbers(TensorReader(forged), 1)


@given(st.integers(0, 70).flatmap(lambda n: st.permutations(range(n))))
def test_a_permutation_comes_back_here_and_by_taking_free_places_one_by_one(order: list[int]):
    packed = encode_permutation(np.array(order, dtype=np.int32))
    assert len(packed) == order_bytes(len(order))
    assert decode_permutation(packed, len(order)).tolist() == order
    assert plain_permutation(packed, len(order)) == order


@pytest.mark.parametrize("count", [127, 128, 129, 256, 257, 1000])
def test_a_permutation_of_several_blocks_comes_back(count: int):
    order = np.random.default_rng(count).permutation(count).astype(np.int32)
    np.testing.assert_array_equal(decode_permutation(encode_permutation(order), count), order)


def test_a_permutation_is_within_4_percent_of_its_information():
    count = 70_839
    order = np.random.default_rng(0).permutation(count).astype(np.int32)
    packed = encode_permutation(order)
    np.testing.assert_array_equal(decode_permutation(packed, count), order)
    assert len(packed) < 1.04 * math.lgamma(count + 1) / math.log(2) / 8


def test_a_rank_beyond_the_free_places_is_refused():
    # Of three, the first rank has 2 bits and may be 0 to 2; the second has 1 bit.
    with pytest.raises(MalformedFileError, match="not a permutation"):
        decode_permutation(pack_planes(np.array([3, 0, 0]), np.array([2, 1, 0])), 3)


@given(masks)
def test_the_stored_cells_come_back(mask: np.ndarray):
    codec, coded = encode_positions(mask)
    cells = decode_positions(
        TensorReader(coded), codec, mask.shape[0], mask.shape[1], int(mask.sum())
    )
    assert cells.tolist() == np.flatnonzero(mask).tolist()


def test_gaps_that_add_up_to_more_than_64_bits_are_refused():
    # 2 (2^63 - 4) + 9 is 1 in 64 bits: as if the last stored cell were the first of the table.
    forged = encode_numbers(np.array([LARGEST_NUMBER, LARGEST_NUMBER, 8]))
    with pytest.raises(MalformedFileError, match="lead out of the table"):
        decode_positions(TensorReader(prefixed("gaps", forged)), "gaps", 3, 4, 3)


def some_mask(density: float, rows: int = 500, columns: int = 64) -> np.ndarray:
    return np.random.default_rng(0).random((rows, columns)) < density


@pytest.mark.parametrize(
    ("mask", "codec"),
    [
        (np.ones((500, 64), bool), "dense"),
        (np.arange(64) < np.random.default_rng(0).integers(0, 65, (500, 1)), "prefix"),
        (some_mask(0.5), "bitmap"),
        (some_mask(0.05), "gaps"),
    ],
)
def test_the_smallest_code_of_positions_is_taken(mask: np.ndarray, codec: str):
    assert encode_positions(mask)[0] == codec


def test_sparse_positions_are_within_4_percent_of_their_entropy():
    p = 0.05
    entropy = -(p * math.log2(p) + (1 - p) * math.log2(1 - p)) * 500 * 64 / 8
    assert total_bytes(encode_positions(some_mask(p))[1]) < 1.04 * entropy


def quantized(weight: np.ndarray, mask: np.ndarray, codec: str) -> tuple[np.ndarray, np.ndarray]:
    """A table as it is read back, and the scales of its rows (1 for floats)."""
    counts = mask.sum(axis=1)
    coded = encode_values(weight[mask], counts, codec)
    result = np.zeros_like(weight)
    result[mask] = decode_values(TensorReader(coded), counts, codec)
    return result, coded.get("scales", np.ones(len(weight))).astype(np.float64)


def table(seed: int, spread: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mask = rng.random((6, 20)) < 0.5
    weight = rng.normal(0, np.exp(rng.normal(-2, spread, (6, 1))), (6, 20)).astype(np.float32)
    return weight * mask, mask


def test_int4_of_a_row_that_fits_exactly():
    # The largest is 7, so the scale is 1 and nothing is lost; -3 is 13 in four bits.
    coded = encode_values(np.array([7, -3, 1], dtype=np.float32), np.array([3]), "int4")
    assert coded["scales"].tolist() == [1]
    assert coded["values"].tolist() == [7 | 13 << 4, 1]


@given(seeds, st.sampled_from(["int8", "int4"]))
def test_values_that_are_not_clipped_are_off_by_half_a_scale_at_most(seed: int, codec: str):
    weight, mask = table(seed)
    read_back, scales = quantized(weight, mask, codec)
    reach = scales[:, None] * (127 if codec == "int8" else 7)
    error = np.abs(weight - read_back)
    assert (error <= np.where(np.abs(weight) <= reach, scales[:, None] / 2, np.inf) + 1e-12).all()
    assert (read_back[~mask] == 0).all()


@given(seeds, st.sampled_from([("int8", 127), ("int4", 7)]))
def test_no_other_clip_factor_has_a_smaller_error(seed: int, codec: tuple[str, int]):
    weight, mask = table(seed)
    read_back, _ = quantized(weight, mask, codec[0])
    most = codec[1]
    for row, found in zip(weight.astype(np.float64), read_back, strict=True):
        for percent in range(50, 101, 5):
            scale = float(np.float16(percent / 100 * np.abs(row).max() / most)) or 1.0
            other = [scale * min(most, max(-most, round(w / scale))) for w in row]
            assert ((row - found) ** 2).sum() <= ((row - other) ** 2).sum() * (1 + 1e-6)


@given(seeds)
def test_floats_are_kept_or_rounded_to_half_precision(seed: int):
    weight, mask = table(seed)
    np.testing.assert_array_equal(quantized(weight, mask, "fp32")[0], weight)
    np.testing.assert_array_equal(quantized(weight, mask, "fp16")[0], weight.astype(np.float16))


def test_rows_too_small_for_a_half_precision_scale_keep_their_largest_values():
    weight = np.array([[2.0**-22, -(2.0**-24), 0]], dtype=np.float32)
    read_back, scales = quantized(weight, np.ones_like(weight, dtype=bool), "int8")
    assert scales.tolist() == [2.0**-24]
    np.testing.assert_array_equal(read_back, weight)


@pytest.mark.parametrize(("codec", "value"), [("fp16", 70_000), ("int8", 1e7), ("int4", 1e6)])
def test_values_too_large_for_a_codec_are_an_error(codec: str, value: float):
    with pytest.raises(ConfigError, match="write the values as fp32"):
        encode_values(np.array([value], dtype=np.float32), np.array([1]), codec)


@given(masks, st.sampled_from(VALUES_CODECS))
def test_the_size_of_a_table_is_known_from_its_mask(mask: np.ndarray, codec: str):
    weight = np.where(mask, 1.5, 0).astype(np.float32)
    coded = encode_values(weight[mask], mask.sum(axis=1), codec)
    assert table_bytes(mask)[codec] == total_bytes(coded) + total_bytes(encode_positions(mask)[1])


@given(masks, seeds, st.booleans())
def test_seen_interactions_come_back_under_any_order(dense: np.ndarray, seed: int, ordered: bool):
    users, items = dense.shape
    seen = Seen(np.append(0, np.cumsum(dense.sum(axis=1))), np.nonzero(dense)[1].astype(np.int32))
    order = np.random.default_rng(seed).permutation(users + items) if ordered else None
    coded = TensorReader(encode_seen(seen, items, order))
    found = decode_seen(coded, users, items, int(dense.sum()), order)
    assert found.offsets.tolist() == seen.offsets.tolist()
    assert found.items.tolist() == seen.items.tolist()


@pytest.mark.parametrize("stretch", [1, 3, 8])
def test_stretches_leave_no_trace(stretch: int, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(stretch)
    dense = rng.random((9, 40)) < 0.3
    items = np.flatnonzero(dense) % 40
    seen = Seen(np.append(0, np.cumsum(dense.sum(1))), items.astype(np.int32))
    order = rng.permutation(49).astype(np.int32)
    at_once = encode_seen(seen, 40, order)
    for module in (bits, edges, numbers):
        monkeypatch.setattr(module, "LONG_STRETCH", stretch)
    by_stretches = encode_seen(seen, 40, order)
    assert {name: part.tolist() for name, part in by_stretches.items()} == {
        name: part.tolist() for name, part in at_once.items()
    }
    found = decode_seen(TensorReader(by_stretches), 9, 40, len(items), order)
    assert found.items.tolist() == items.tolist()


@pytest.mark.slow
def test_an_interaction_of_gowalla_under_the_spectral_order_takes_1_25_bytes_at_most(shared_data):
    from cerp.assignment.ordering import order
    from cerp.data.datasets import load

    train = load(str(shared_data("gowalla"))).train
    by_user = np.lexsort((train.item, train.user))
    counts = np.bincount(train.user, minlength=train.num_users)
    seen = Seen(np.append(0, np.cumsum(counts)), train.item[by_user])
    coded = encode_seen(seen, train.num_items, order(train, "spectral", seed=0))
    assert total_bytes(coded) <= 1.25 * len(train.item)


@given(st.lists(st.text(), unique=True) | st.sets(st.integers(0, LARGEST_NUMBER)).map(sorted))
def test_ids_come_back(values: list[int] | list[str]):
    kind = object if values and isinstance(values[0], str) else np.int64
    ids = Ids(np.array(values, dtype=kind))
    described, coded = encode_ids(ids, "users")
    found = decode_ids(Fields(described), TensorReader(coded), len(values))
    assert found.values.tolist() == values
    assert found.are_integers == ids.are_integers


def test_integer_ids_out_of_order_are_refused():
    with pytest.raises(ConfigError, match="ids of users must be ascending"):
        encode_ids(Ids(np.array([3, 1])), "users")


def test_what_repeats_endlessly_is_deflated_within_the_limit_on_bombs():
    content = bytes(1_000_000)
    stream = deflate(content)
    assert len(content) <= 16 * (len(stream) + 1)
    assert inflate(stream, len(content), what="it") == content
