"""`python -m cerp.cli`, the same as `cerp`."""

from cerp.cli import main

main()
