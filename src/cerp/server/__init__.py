"""HTTP in front of a `.cerp` file, and the page with its in-browser runtime (extra `serve`)."""
