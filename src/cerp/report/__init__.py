"""`cerp report`: several runs of the same data as one HTML page that needs nothing but itself.

run folders (and the data) -> `Findings` -> page. Charts are inline SVG, there
is no script, and the same input gives the same bytes. NumPy and the standard
library only.
"""
