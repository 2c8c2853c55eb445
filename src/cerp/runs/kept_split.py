"""The split that a run was trained on, kept in its folder: evaluating needs no other word."""

from __future__ import annotations

from pathlib import Path

from cerp.data.splits import PARTS, Splits

SPLIT = "split"
"""A folder in that of the run, as `Splits.save` writes it."""


def keep_split(run: Path, splits: Splits) -> None:
    """Save the split, unless it is there."""
    if not (run / SPLIT).exists():
        splits.save(run / SPLIT)


def kept_split(place: str | Path) -> Splits | None:
    """The split of a run, by its folder or by a model file in it; None where none is kept."""
    path = Path(place)
    folder = (path if path.is_dir() else path.parent) / SPLIT
    return Splits.load(folder) if (folder / "meta.json").is_file() else None


def what_changed(run: Path, splits: Splits) -> str:
    """How data differs from that of a run, in words."""
    kept = kept_split(run)
    if kept is None:
        return "other users, items or interactions, or another split of them"
    counts = {"users": (kept.num_users, splits.num_users)}
    counts["items"] = (kept.num_items, splits.num_items)
    kept_total, total = (sum(len(one.part(name)) for name in PARTS) for one in (kept, splits))
    counts["interactions"] = (kept_total, total)
    unlike = [
        f"{now:,} {what}, where the run had {then:,}"
        for what, (then, now) in counts.items()
        if then != now
    ]
    if unlike:
        return f"it has {'; '.join(unlike)}"
    if kept.protocol != splits.protocol:
        return (
            f"it is split by {_told(splits.protocol)}, where the run was by {_told(kept.protocol)}"
        )
    if kept.fingerprint == splits.fingerprint:
        return "the same interactions, with other weights"
    return "as many users, items and interactions, and not the same ones"


def _told(protocol: dict[str, object]) -> str:
    rest = ", ".join(f"{key} {value}" for key, value in protocol.items() if key != "name")
    return f"{protocol['name']} ({rest})" if rest else str(protocol["name"])
