from __future__ import annotations

import torch

from cerp.training.search_result import Found, pack, unpack


def test_what_was_found_for_each_limit_comes_back():
    found = {
        12: Found({"mask": torch.tensor([True, False]), "weight": torch.tensor([0.5, 0.0])}, {}),
        123: Found({"mask": torch.tensor([True, True])}, {"epoch": 3}),
        5: Found({}, {"widths": [1, 2]}),
    }
    tensors, facts = pack(found)
    assert sorted(tensors) == ["12.mask", "12.weight", "123.mask"]
    assert facts == {"12": {}, "123": {"epoch": 3}, "5": {"widths": [1, 2]}}
    again = unpack(tensors, facts)
    assert again.keys() == found.keys()
    for limit, entry in found.items():
        assert again[limit].facts == entry.facts
        assert again[limit].tensors.keys() == entry.tensors.keys()
        assert all(torch.equal(again[limit].tensors[name], t) for name, t in entry.tensors.items())
