"""Model files on the Hugging Face Hub: `save_to_hub`, and what ``cerp.load("hf://...")`` fetches.

A repository holds two files: ``model.cerp``, which is checked whole before it is used, like any
other, and ``README.md``, the card. Nothing in it is a pickle, and nothing in it is run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from cerp._version import __version__
from cerp.artifact import ShippedModel, backbone_name, read_whole, section_bytes
from cerp.errors import ConfigError, DownloadError, MissingExtra

ADDRESS = re.compile(r"hf://(?P<repo>[\w.-]+/[\w.-]+?)(?:@(?P<revision>[\w./-]+))?")
MODEL, CARD = "model.cerp", "README.md"


def save_to_hub(
    path: str | os.PathLike[str],
    repo: str,
    *,
    private: bool = True,
    message: str = "Model file of cerp",
) -> str:
    """Put a model file and a card about it into a repository of the Hugging Face Hub.

    Who may write there is who is logged in (``hf auth login``, or ``HF_TOKEN``).

    Parameters
    ----------
    path
        A ``.cerp`` file. It is checked whole before anything is sent.
    repo
        ``"owner/name"``; it is made where it is not there.
    private
        Whether a new repository can be read by its owner alone. A file may hold what users took:
        the card says so, and `cerp inspect` does. A repository that is there stays what it is.
    message
        What the commit says.

    Returns
    -------
    str
        The address that `cerp.load` takes: ``hf://owner/name@commit``.

    Raises
    ------
    DataError, FileFormatError
        The file cannot be read, or is no usable model file.
    DownloadError
        The Hub cannot be reached, or refuses.

    """
    if ADDRESS.fullmatch(f"hf://{repo}") is None or "@" in repo:
        raise ConfigError(f"repo={repo!r} is no repository; write owner/name")
    data, model = read_whole(Path(path))
    hub = _client("save_to_hub")
    operations = [
        hub.CommitOperationAdd(MODEL, data),
        hub.CommitOperationAdd(CARD, model_card(model, data, repo).encode("utf-8")),
    ]
    api = hub.HfApi(library_name="cerp", library_version=__version__)
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        done = api.create_commit(repo, operations, commit_message=message)
    except Exception as error:  # of the client, and of what it reaches the Hub with
        raise DownloadError(
            f"{repo} on the Hugging Face Hub cannot be written ({_first_line(error)}); log in with "
            "'hf auth login', as someone who may write there"
        ) from None
    return f"hf://{repo}@{done.oid}"


def is_on_hub(path: str | os.PathLike[str]) -> bool:
    """Whether a path is an address of the Hub."""
    return isinstance(path, str) and path.startswith("hf://")


def fetched(address: str) -> Path:
    """The model file at ``hf://owner/name`` or ``hf://owner/name@revision``, in the Hub's cache."""
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise ConfigError(
            f"{address!r} is no address of a model; write hf://owner/name, or "
            "hf://owner/name@revision"
        )
    hub = _client("hf://")
    try:
        return Path(
            hub.hf_hub_download(
                found["repo"],
                MODEL,
                revision=found["revision"],
                library_name="cerp",
                library_version=__version__,
            )
        )
    except Exception as error:  # of the client, and of what it reaches the Hub with
        raise DownloadError(
            f"{address}: {MODEL} cannot be fetched ({_first_line(error)}); a private repository "
            "needs 'hf auth login'"
        ) from None


def model_card(model: ShippedModel, data: bytes, repo: str) -> str:
    """The card of a file: what it is, what it takes, what it holds of users, how to use it."""
    facts = model.facts
    rows = {
        "kind": "vectors for lookups" if model.is_lookup else backbone_name(model),
        "method": facts.get("method"),
        "users": f"{len(model.users):,}",
        "items": f"{model.num_vectors - len(model.users):,}",
        "bytes": f"{len(data):,}",
        "precision of values": model.precision,
        **{f"{name} on test": f"{value:.4f}" for name, value in _figures(facts).items()},
    }
    told = "\n".join(f"| {name} | {value} |" for name, value in rows.items() if value is not None)
    bytes_of = "\n".join(
        f"| {name} | {size:,} |" for name, size in section_bytes(data).items() if size
    )
    history = (
        "The file holds the interactions that it was trained on, so that lists leave out what "
        "users have: whoever has the file has them too. It can be exported without."
        if model.seen is not None
        else "The file holds no interactions of users."
    )
    use = 'model.recommend_for(["an item"], k=10)'
    if model.fields is not None:
        use = f'vectors = model["{model.fields[0].name}"].vectors(["an id"])'
    elif model.is_lookup:
        use = 'vectors = model.vectors(["an id"])'
    return f"""---
library_name: cerp
tags:
- recommendation
- cerp
---
# {repo.partition("/")[2]}

A recommender in one file, which runs with NumPy alone.

| | |
|---|---|
{told}

{history}

## Use

```python
import cerp  # pip install 'cerp[hub]'

model = cerp.load("hf://{repo}")
{use}
```

## Where the bytes are

| section | bytes |
|---|---|
{bytes_of}
"""


def _figures(facts: dict[str, Any]) -> dict[str, float]:
    """Accuracy on the test part, where the file says it."""
    found: Any = facts
    for key in ("metrics", "test"):
        found = found.get(key) if isinstance(found, dict) else None
    figures = found if isinstance(found, dict) else {}
    names = ("ndcg@10", "recall@10")
    return {name: figures[name] for name in names if isinstance(figures.get(name), int | float)}


def _client(feature: str) -> ModuleType:
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtra(feature, "huggingface_hub", "hub") from None
    return huggingface_hub


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
