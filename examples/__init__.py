"""CERP in models of other kinds: click models, sequences, two towers."""
