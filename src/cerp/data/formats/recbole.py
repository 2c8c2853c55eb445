"""RecBole's ``.inter``: delimited text whose header gives types, ``user_id:token``."""

from __future__ import annotations

from dataclasses import replace

from cerp.data.formats.base import COLUMN_OPTIONS, LAYOUT_OPTIONS, FileFormat, SourceFile
from cerp.data.formats.columns import Wanted
from cerp.data.formats.delimited import DelimitedFile
from cerp.data.formats.sniffing import sniff
from cerp.data.formats.text_files import is_all_in_head
from cerp.data.interactions import Interactions


def read_recbole(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions in a file."""
    layout = sniff(
        file.head,
        str(file.path),
        delimiter=file.delimiter or "\t",
        header=True,
        is_whole=is_all_in_head(file.plain),
    )
    names = tuple(str(name).partition(":")[0] for name in layout.columns)
    return DelimitedFile(file.plain, file.path, replace(layout, columns=names)).read(wanted)


RECBOLE = FileFormat("RecBole", read_recbole, (".inter",), options=COLUMN_OPTIONS | LAYOUT_OPTIONS)
