"""Builds docs/results.md of this repository from results/."""
