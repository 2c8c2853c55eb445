"""How each source becomes interactions; `cerp.data.readers.read` chooses among them.

One file per format (`delimited`, `recbole`, `lightgcn_text`, `json_lines`, `parquet`), each of
which adds itself to `base.FORMATS`; `frames` for tables in memory; `titles` for names of items.
They stand on what they share: `recognising` tells formats apart, `sniffing` finds the layout of
a text, `columns` the roles of columns, `duckdb_scan` encodes tables, `times` reads times,
`vocabulary` decides what ids are.
"""

# A format of cerp's own is listed here.
from cerp.data.formats import delimited, json_lines, lightgcn_text, parquet, recbole

__all__ = ["delimited", "json_lines", "lightgcn_text", "parquet", "recbole"]
