"""A module in torch's data-parallel wrapper, which shares the gradients of what it knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from cerp.errors import ConfigError
from cerp.models.embeddings.compositional import CompositionalEmbedding


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    store = (tmp_path / "meeting").as_uri()
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("one_process")
def test_thresholds_that_a_wrapper_does_not_know_are_refused():
    embedding = CompositionalEmbedding(40, 4, buckets=8)
    wrapped = DistributedDataParallel(embedding)
    wrapped(torch.tensor([3])).sum().backward()
    embedding.start_pruning()
    with pytest.raises(ConfigError, match="wrap the model after start_pruning"):
        wrapped(torch.tensor([3]))


@pytest.mark.usefixtures("one_process")
def test_a_wrapper_made_after_pruning_began_shares_all_gradients():
    embedding = CompositionalEmbedding(40, 4, buckets=8)
    embedding.start_pruning()
    wrapped = DistributedDataParallel(embedding)
    wrapped(torch.arange(40)).sum().backward()
    assert embedding.threshold.grad is not None
    assert embedding(torch.tensor([3])).shape == (1, 4)
