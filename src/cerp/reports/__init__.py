"""`cerp.report`: several runs of the same data as one HTML page that needs nothing but itself.

run folders (and the data) -> `Findings` -> page. The drawings and the style are those of
`cerp.pages`. NumPy and the standard library only.
"""
