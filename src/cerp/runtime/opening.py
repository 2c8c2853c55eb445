"""`load`: a model file ready for what it is for, recommending or lookups."""

from __future__ import annotations

import os
from pathlib import Path

from cerp.artifact import read_whole
from cerp.runtime.field_lookups import FieldLookups
from cerp.runtime.hub import fetched, is_on_hub
from cerp.runtime.limits import MAX_MEMORY
from cerp.runtime.lookup import Lookup
from cerp.runtime.recommending import Runtime


def load(
    path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY
) -> Runtime | Lookup | FieldLookups:
    """Read a model file and make it ready: to recommend, or to look vectors up.

    Parameters
    ----------
    path
        A ``.cerp`` file. It is read once, as a whole: what becomes of it later has no effect.
        Or one on the Hugging Face Hub, ``hf://owner/name`` or ``hf://owner/name@revision``, as
        `cerp.save_to_hub` put it there.
    max_memory
        What recommending from it may take, in bytes or as ``"2GB"``. A small file can describe
        vectors without end, which are composed as soon as it is loaded. Those of a file for
        lookups are composed when they are asked for, and may take as much then.

    Returns
    -------
    Runtime, Lookup or FieldLookups
        A model with its vectors composed; where it needs that, they are propagated when more than
        one list is asked for. Or, of a file that `cerp.compress` wrote, vectors by id; of one that
        `cerp.nn.EmbeddingCollection.save` wrote, such lookups by the names of fields.

    Raises
    ------
    DataError
        The file cannot be read, or is no usable model file (`FileFormatError`).
    ConfigError
        It would take more memory than allowed.
    DownloadError
        The Hub cannot be reached, or has no such file.

    """
    data, model = read_whole(fetched(str(path)) if is_on_hub(path) else Path(path))
    if model.fields is not None:
        return FieldLookups(model, file_bytes=len(data), max_memory=max_memory)
    if model.is_lookup:
        return Lookup(model, file_bytes=len(data), max_memory=max_memory)
    return Runtime(model, file_bytes=len(data), max_memory=max_memory, one_list_first=True)
