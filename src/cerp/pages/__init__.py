"""One look for everything that cerp writes to be read: HTML pages, SVG charts, Markdown tables.

numbers -> html -> svg, axes -> charts, heat_map
                -> tables (`TablePage`: as HTML, as Markdown)

A page needs nothing but itself: style and drawings are in it, there is no script, and the same
input gives the same bytes. The standard library and NumPy only.
"""
