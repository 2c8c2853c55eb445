"""How each source becomes interactions; `cerp.data.readers.read` chooses among them.

One file per format (`delimited`, `parquet`, `json_lines`, `lightgcn_text`,
`in_memory`, and `titles` beside them), on top of what they share: `sniffing`
finds the layout of a text, `columns` the roles of columns, `tables` encodes in
DuckDB, `vocabulary` decides what ids are.
"""
