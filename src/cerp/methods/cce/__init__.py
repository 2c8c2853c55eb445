"""CCE: rows that are clustered again while they learn."""
