"""The paper's tables and figures, one command each, with its numbers beside ours.

recipe (TOML) -> planning (cells) -> comparison's jobs -> record (JSON) -> tables, figures

`run.run_recipe` does all of it.

A *cell* is one method under one setting, backbone, budget and seed. A record has
every cell of its recipe, with its result or with the reason why there is none;
all that is shown is built from records alone.
"""
