from __future__ import annotations

import numpy as np
import torch

from cerp.data import splitmix
from cerp.models.random_words import mixed, unit

WORDS = np.random.default_rng(0).integers(0, 2**64, 1000, dtype=np.uint64)


def test_words_are_mixed_as_in_numpy():
    found = mixed(torch.from_numpy(WORDS.view(np.int64)))
    np.testing.assert_array_equal(found.numpy().view(np.uint64), splitmix.mixed(WORDS))


def test_a_word_is_the_number_of_its_first_bits():
    words = torch.tensor([0, 2**62, -(2**63), -1])
    assert unit(words).tolist() == [0.0, 0.25, 0.5, 1 - 2.0**-53]
