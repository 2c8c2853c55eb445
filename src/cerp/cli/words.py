"""The library's messages in the words of the command line.

The library speaks Python: ``k_core=3``, ``resume=True``, ``cerp.fit``. Whoever typed a command
reads ``--k-core 3``, ``--resume``, ``cerp train``.
"""

from __future__ import annotations

import ast
import re
import shlex

OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        "assignment", "backbone", "batch_size", "buckets", "budget", "codebooks", "data",
        "dataset", "decimal", "delimiter", "device", "dim", "encoding", "epoch_size", "epochs",
        "format", "gamma", "graph", "item", "k_core", "learning_rate", "liked", "max_file_size",
        "max_size", "method", "methods", "min_rating", "neighbours", "ordering", "output",
        "portfolio", "processes", "protocol", "rating", "refit", "seed", "seeds", "settings",
        "sql", "time", "time_format", "time_limit", "titles", "trials", "user", "users",
        "weight", "where",
    )
} | {
    "budgets": "--budget",
    "folder": "--output",
    "value_precision": "--values",
    "prune.epochs": "--prune-epochs",
    "prune.gamma": "--gamma",
    "train.batch_size": "--batch-size",
    "train.epoch_size": "--epoch-size",
    "train.epochs": "--epochs",
    "train.learning_rate": "--learning-rate",
}  # fmt: skip
"""The option of a setting that takes a value."""

SWITCHES = {
    ("exclude_seen", False): "--include-seen",
    ("header", True): "--header",
    ("item_only", True): "--item-only",
    ("mix", True): "--mix",
    ("mix", "together"): "--mix-together",
    ("mix", "sharp"): "--mix-sharp",
    ("header", False): "--no-header",
    ("ids", "string"): "--string-ids",
    ("overwrite", True): "--overwrite",
    ("popularity", True): "--popularity",
    ("resume", True): "--resume",
    ("skip_unknown", True): "--skip-unknown",
    ("store_seen", False): "--no-seen",
    ("time", False): "--no-time",
    ("unseen_items", True): "--unseen-items",
}
"""The option of a setting that has this very value."""

COMMANDS = {
    "cerp.compare": "cerp compare",
    "cerp.compress": "cerp compress",
    "cerp.evaluate": "cerp evaluate",
    "cerp.fit": "cerp train",
    "cerp.fit_to_size": "cerp train",
    "cerp.report": "cerp report",
    "cerp.tune": "cerp tune",
    "datasets.fetch": "cerp data fetch",
    "Splits.save": "cerp data split",
}
"""The verb that does what a call does."""

_VALUE = r"""'[^']*'|"[^"]*"|True|False|-?\d+(?:\.\d+)?%?|[A-Za-z][\w-]*"""
# Not in a path such as 'runs/seed=1' or 'seed=1.csv'; see also `_option`.
_SETTING = re.compile(
    rf"(?<![\w./\\'\"=-])(?P<name>[a-z_]+(?:\.[a-z_]+)?)=(?P<value>{_VALUE})?(?![\w/\\=]|\.\w)"
)
_LONG_NAME = re.compile(
    r"(?<![\w./\\'\"=-])"
    rf"({'|'.join(re.escape(name) for name in OPTIONS if re.search('[._]', name))})"
    r"(?![\w/\\'\"=]|\.\w)"
)
_CALL = re.compile(rf"(?<![\w./\\])({'|'.join(map(re.escape, COMMANDS))})(?:\(\))?(?![\w/\\.])")


def for_the_command_line(message: str) -> str:
    """A message of the library, with settings and calls as one types them in a shell."""
    message = _SETTING.sub(_option, message)
    message = _LONG_NAME.sub(lambda found: OPTIONS[found[1]], message)
    return _CALL.sub(lambda found: f"'{COMMANDS[found[1]]}'", message)


def _option(found: re.Match[str]) -> str:
    name, text = found["name"], found["value"]
    if found.start() == 0 and found.string[found.end() :][:1] in (":", ","):
        return found[0]  # messages about a file begin with its path and a colon, or ', line 3'
    if text is None:
        return OPTIONS.get(name, found[0])
    value = ast.literal_eval(text) if re.match(r"['\"]|True|False|-?\d+(\.\d+)?$", text) else text
    if (name, value) in SWITCHES:
        return SWITCHES[name, value]
    if name not in OPTIONS or isinstance(value, bool):
        return found[0]
    return f"{OPTIONS[name]} {_quoted(str(value))}"


def _quoted(text: str) -> str:
    """As one types it in a shell, in double quotes where it holds single ones."""
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)
