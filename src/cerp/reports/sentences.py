"""The summary in plain sentences, computed from the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cerp.pages.numbers import count, metric, metric_name, percent, signed
from cerp.reports.findings import Findings
from cerp.reports.finished_runs import Model


def what_is_shown(found: Findings) -> str:
    """The best compact model, its size, and what it is to be compared with."""
    best = found.best
    if best is None:
        return _without_compact(found)
    figures = _figures(best)
    main, second = found.metrics
    compact = [model for model in found.models if not model.run.is_full and model.test is not None]
    named = _with_backbone(best)
    among = f"Of {len(compact)} compact models, {named}" if len(compact) > 1 else named
    ranks = " is the best on the validation part" if len(compact) > 1 else " is the compact model"
    sentences = [
        f"{among}{ranks}. On the test part it has {metric_name(main)} "
        f"{metric(figures[main])} and {metric_name(second)} {metric(figures[second])}, "
        f"over {count(figures['users'])} users."
    ]
    if best.facts.file_bytes is not None and best.facts.embedding_bytes is not None:
        size = f"Its file has {count(best.facts.file_bytes)} bytes"
        share, full_table = found.share_of_full_table(best), found.full_table_bytes(best)
        if share is not None:
            size += (
                f"; the embedding in it takes {count(best.facts.embedding_bytes)} of them, "
                f"{percent(share)} of the {count(full_table)} bytes of the full table in fp32"
            )
        sentences.append(size + ".")
    if found.full is not None:
        sentences.append(_against_full(found, best, found.full))
    if found.popularity is not None:
        sentences.append(
            f"The most popular items for everybody, the floor, have {metric_name(main)} "
            f"{metric(found.popularity.mean[main])}."
        )
    sentences += [told for model in found.models if (told := _of_teacher(model)) is not None]
    return " ".join(sentences)


def what_is_not_shown(found: Findings) -> list[str]:
    """What a reader might take from the figures, and may not."""
    notes = []
    if found.best is not None and found.full is None:
        notes.append("No full-size run is among these: what compression costs is not shown.")
    if found.judgements is None:
        notes.append(
            "The report was made without the data, so there are no values per user: whether "
            "differences are more than chance is not shown, nor is the floor that popularity sets."
        )
    elif unclear := [label for label, one in found.differences.items() if not one.is_clear]:
        notes.append(
            "By the paired bootstrap over users (95%), the best compact model is not clearly "
            f"different from {_listed(unclear)}."
        )
    if _trained_once(found):
        notes.append(
            "Every configuration was trained with one seed: how much the figures change from one "
            "seed to another is not shown."
        )
    if rising := [model for model in found.models if model.is_rising]:
        notes.append(
            f"The best epoch was the last one for {_listed([model.label for model in rising])}: "
            "longer training may change the comparison."
        )
    if stalled := [model for model in found.models if _has_stalled(model)]:
        notes.append(
            f"Pruning did not reach the budget of {_listed([model.label for model in stalled])} "
            "by itself; the rest was cut by exact projection."
        )
    if unjudged := [model.label for model in found.models if model.test is None]:
        notes.append(
            f"No test figures: {_listed(unjudged)}, refitted on everything or without a test part."
        )
    notes += [_leak(run.label, run.origin.id_leak) for run in found.runs if run.origin.id_leak]
    return notes


def _without_compact(found: Findings) -> str:
    named = metric_name(found.metric)
    told = [
        f"{_with_backbone(model)} has {named} {metric(model.test[found.metric])}"
        for model in found.ranked
        if model.test is not None
    ]
    sentence = "No compact model with test figures is among the runs."
    return f"{sentence} {'; '.join(told)}." if told else sentence


def _against_full(found: Findings, best: Model, full: Model) -> str:
    mine, theirs = _figures(best)[found.metric], _figures(full)[found.metric]
    backbone = full.run.config.backbone
    which = f"with another backbone, {backbone},"
    if not best.facts.has_vectors:
        which = f"on {backbone}"
    elif best.run.config.backbone == backbone:
        which = "with the same backbone"
    sentence = f"The full-size model {which} has {metric(theirs)}"
    if theirs > 0:
        sentence += f": the compact one reaches {percent(mine / theirs)} of that"
    if (one := found.differences.get(full.label)) is not None:
        sentence += (
            f" (difference {signed(one.mean)}, 95% interval {signed(one.low)} to "
            f"{signed(one.high)}: {'clear' if one.is_clear else 'not clear'})"
        )
    if full.is_rising:
        sentence += ", but it was still improving when training ended"
    return sentence + "."


def _of_teacher(model: Model) -> str | None:
    """What the teacher of a model had, beside what the model made of it."""
    teacher = (model.facts.search or {}).get("teacher")
    if teacher is None:
        return None
    name = model.facts.selection_metric
    theirs, mine = metric(teacher[f"valid_{name}"]), metric(model.validation)
    return (
        f"{model.label} learned from a teacher, {teacher['name']}: on validation the teacher has "
        f"{metric_name(name)} {theirs}, the model {mine}."
    )


def _with_backbone(model: Model) -> str:
    backbone = model.run.config.backbone
    if not model.facts.has_vectors:
        return model.label
    return model.label if backbone in model.label.split() else f"{model.label} on {backbone}"


def _figures(model: Model) -> dict[str, float]:
    assert model.test is not None, "only models with test figures are compared"
    return model.test


def _trained_once(found: Findings) -> bool:
    configs = [replace(run.config, seed=0).to_dict() for run in found.runs]
    return all(configs.count(config) == 1 for config in configs)


def _has_stalled(model: Model) -> bool:
    return (model.facts.search or {}).get("reached") is False


def _leak(label: str, figures: dict[str, dict[str, float]]) -> str:
    told = [
        f"{side.replace('_', ' ')} {metric(figures[side]['native'])} against "
        f"{metric(figures[side]['shuffled'])} shuffled"
        for side in ("item_window", "user_window")
    ]
    return (
        f"{label} uses the raw numbering of ids, which may give test interactions away. NDCG@10 "
        f"of recommenders that know the numbering alone: {'; '.join(told)}."
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
