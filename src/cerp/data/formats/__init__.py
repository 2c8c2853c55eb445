"""How each source becomes interactions; `cerp.data.readers.read` chooses among them.

One file per format (`delimited`, `recbole`, `lightgcn_text`, `json_lines`, `parquet`), listed in
`base.FORMATS`; `frames` for tables in memory; `titles` for names of items.
They stand on what they share: `recognising` tells formats apart, `sniffing` finds the layout of
a text, `columns` the roles of columns, `regular_text` cuts text whose lines are all of one form,
`duckdb_scan` encodes all other tables, `times` reads times, `vocabulary` decides what ids are.
"""
