"""What agrees with the paper, what does not, and why, each sentence with its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import mean
from typing import Any

from cerp.comparison.results import Result, main_scores
from cerp.comparison.statistics import ENOUGH_SEEDS, Mark, spread, t_test
from cerp.evaluation.significance import LEVEL
from cerp.paper.method_table import NO_RIVALS
from cerp.paper.published import Row, published_rows
from cerp.paper.record import Record, is_in_cell
from results_page.results_index import MISSING, ResultsIndex

BUDGETS, BACKBONES = (90, 95, 99), ("lightgcn", "mlp")
CERP = {
    "CERP": {"method": "cerp", "preset": "default", "ordering": "spectral"},
    "CERP, learned rows": {"method": "cerp-learned", "preset": "default"},
    "CERP, shuffled ids": {"method": "cerp", "preset": "default", "ordering": "shuffled"},
    "paper preset, native ids": {"method": "cerp", "preset": "paper", "ordering": "native"},
    "paper preset, shuffled ids": {"method": "cerp", "preset": "paper", "ordering": "shuffled"},
    "paper preset, spectral ids": {"method": "cerp", "preset": "paper", "ordering": "spectral"},
}
"""The rows of CERP, by the names that the page gives them."""
GOWALLA = {"dataset": "gowalla"}


def findings(results: ResultsIndex) -> list[str]:
    """A paragraph each."""
    return [
        _bar("At equal values", results, "table2", ["99%", "95%", "90%"]),
        _bar("At equal bytes", results, "table2-bytes", ["400KB"]),
        _above_the_paper(results),
        _others_against_the_paper(results),
        _numbering(results),
        "**Selection.** The authors' code stops on test NDCG@5, and every metric keeps its own "
        "best epoch. Here epochs are selected on validation NDCG@10, and a run reads the test part "
        "once, at its end, so their figures are flattered and these are not. How often the test "
        "part of a *row* was seen, over all settings that it had, is in its record "
        "(`test_readings`); rows measured before records counted have none, and "
        "results/README.md tells what is known of them.",
        _mlp(results),
        _uniform_dimension(results),
        _penalty(results),
        _stalls(results),
        _sensitivity(results),
    ]


def printed(method: str, backbone: str, percent: int) -> float | None:
    """The paper's NDCG@10 on Gowalla."""
    rows = published_rows(
        "table2", method=method, backbone=backbone, sparsity=percent, dataset="gowalla"
    )
    return rows[0]["ndcg10"] if rows else None


def _bar(start: str, results: ResultsIndex, recipe: str, budgets: Sequence[str]) -> str:
    """How CERP stands against every other method under a budget, and what of it holds."""
    path = results.folder / "gowalla" / f"{recipe}-runs.json"
    record = Record.read(path) if path.exists() else None
    told, total = [], Counter[Mark]()
    for backbone in BACKBONES:
        for budget in budgets:
            marks = [] if record is None else _rivals(record, backbone, budget)
            total.update(mark for _, mark, _ in marks)
            told.append(f"{backbone} at {budget}: {_standing(marks)}")
    counted = ", ".join(f"{count} {mark}" for mark, count in total.items()) or MISSING
    return (
        f"**{start}, CERP against the other methods** (Gowalla). Better means that the interval of "
        "the difference, from a bootstrap over users and seeds together, leaves zero out after "
        "Holm's correction over the table; 'too few seeds' that one of the two has fewer than "
        f"{ENOUGH_SEEDS}, 'users only' that the interval is older than this rule and knows nothing "
        f"of seeds. In all: {counted}. {'; '.join(told)}."
    )


def _rivals(record: Record, backbone: str, budget: str) -> list[tuple[str, Mark, float | None]]:
    """Name, mark and t-test of all that CERP is compared with in a cell."""
    results: dict[str, list[Result]] = {}
    mine: list[Result] = []
    cerp = next((entry.run for entry in record.found if entry.run.method == "cerp"), None)
    for entry in record.found:
        if is_in_cell(entry, backbone, budget):
            results.setdefault(entry.result.method, []).append(entry.result)
            mine += [entry.result] if entry.run == cerp else []
    return [
        (_method(name), mark, _p_over_seeds(mine, results.get(name, [])))
        for name, mark in record.marks(backbone, budget).items()
        if _method(name) not in NO_RIVALS
    ]


def _p_over_seeds(mine: Sequence[Result], other: Sequence[Result]) -> float | None:
    return t_test(main_scores(mine), main_scores(other)) if mine and other else None


def _method(name: str) -> str:
    return name.split("-")[0]


def _standing(marks: Sequence[tuple[str, Mark, float | None]]) -> str:
    """Against how many the difference holds, the names of the others, and what the t-test says."""
    if not marks:
        return MISSING
    by_mark: dict[Mark, list[str]] = {}
    for name, mark, _ in marks:
        by_mark.setdefault(mark, []).append(name)
    state = f"better than {len(by_mark.pop('better', []))} of {len(marks)}"
    state += "".join(f", {mark}: {' '.join(names)}" for mark, names in by_mark.items())
    tested = [p for _, _, p in marks if p is not None]
    if tested:
        state += f" (t-test over seeds: {sum(p <= LEVEL for p in tested)} of {len(tested)} differ)"
    return state


def _above_the_paper(results: ResultsIndex) -> str:
    above, below, open_cells = 0, 0, 0
    for backbone in BACKBONES:
        for percent in BUDGETS:
            paper = printed("cerp", backbone, percent)
            ours = results.scores(**_place("CERP", backbone, percent))
            assert paper is not None
            if not ours:
                open_cells += 1
            elif mean(ours) > paper:
                above += 1
            else:
                below += 1
    return (
        f"**Against the paper's CERP** (Gowalla, six cells): the default preset is above it in "
        f"{above}, not above in {below}, and {open_cells} are {MISSING}."
    )


SHOWN_AS_PRINTED = {"qr": {"ordering": "shuffled"}, "dhe": {"accounting": "paper"}}
"""Of methods with several rows, the one to hold against the paper's."""


def _others_against_the_paper(results: ResultsIndex) -> str:
    """A weak rival would flatter CERP: does each reach what the paper reports for it?"""
    reached, below, unknown = 0, [], []
    for row in published_rows("table2", **GOWALLA):
        if row["method"] == "cerp":
            continue
        percent = min(BUDGETS, key=lambda budget: abs(budget - row["sparsity"]))
        place = {name: row[name] for name in ("method", "backbone")} | {"sparsity": percent}
        wanted = place | SHOWN_AS_PRINTED.get(row["method"], {}) | GOWALLA
        ours, name = results.scores(**wanted), f"{row['method']}, {row['backbone']}, {percent}%"
        if not ours:
            unknown.append(name)
        elif mean(ours) >= row["ndcg10"]:
            reached += 1
        else:
            below.append(f"{name}: {results.shown(**wanted)} against {row['ndcg10']:.4f}")
    told = f"reached in {reached} cells"
    told += f"; not in {len(below)} ({'; '.join(below)})" if below else ""
    told += f"; {MISSING}: {', '.join(unknown)}" if unknown else ""
    return (
        f"**The other methods against the paper's figures for them** (Gowalla): {told}. At 99% UD "
        "has one number for an entity, and its seeds differ widely; QR's ids are shuffled here, "
        "since raw ones may leak, and with spectral ids it is far above."
    )


def _numbering(results: ResultsIndex) -> str:
    told = [f"{name} {_shown_cerp(results, name, 'lightgcn', 99)}" for name in CERP]
    leak = (results.read("id_leak.json") or {}).get("gowalla")
    window = MISSING
    if leak:
        item = leak["item_window"]
        window = f"{item['native']:.4f}, and {item['shuffled']:.4f} with shuffled ids"
    return (
        "**The numbering of ids carries much of the gain.** Neighbouring ids share a row, and "
        "Gowalla's raw item ids tell which items go together: recommending by nearby item ids, "
        f"with no training at all, reaches {window}. CERP at 99% with LightGCN: {'; '.join(told)}. "
        "The spectral order is computed from training edges alone, so it gives nothing away."
    )


def _mlp(results: ResultsIndex) -> str:
    best = max(row["ndcg10"] for row in published_rows("table2", **GOWALLA, backbone="mlp"))
    floor = results.shown(method="popularity", **GOWALLA)
    return (
        f"**The paper's MLP is near popularity.** Its best figure on Gowalla is {best:.4f}; "
        f"recommending everybody the most popular items reaches {floor}. CERP at 99% reaches "
        f"{_shown_cerp(results, 'CERP', 'mlp', 99)} here."
    )


def _uniform_dimension(results: ResultsIndex) -> str:
    place = {"method": "ud", "backbone": "lightgcn", **GOWALLA}
    told, higher = [], []
    for percent in BUDGETS:
        paper = printed("ud", "lightgcn", percent)
        ours = results.scores(sparsity=percent, **place)
        assert paper is not None
        told.append(f"{percent}%: {paper:.4f} and {results.shown(sparsity=percent, **place)}")
        higher += [f"{percent}%"] if ours and mean(ours) > paper else []
    verdict = "Is the paper's UD undertrained?"
    if higher:
        verdict = f"The paper's UD looks undertrained at {' and '.join(higher)}."
    return f"**{verdict}** LightGCN, printed and here: {'; '.join(told)}."


NOTHING_LEFT = 1e-3
"""Of gamma's start: below, the penalty is over before entries are pruned."""


def _penalty(results: ResultsIndex) -> str:
    rows = _ablation_rows(results)
    without = [row for row in rows if row["variant"] == "no_penalty"]
    told = f"Figures: {MISSING}."
    if without:
        told = (
            "Here, with gamma halved after every epoch, it "
            f"{_directions(rows, 'default', without)}.{_pruned_when(rows)} Where gamma keeps its "
            "first value (no_gamma_decay) it "
            f"{_directions(rows, 'no_gamma_decay', without)}.{_larger_gammas(results, without)}"
        )
    return f"**The penalty**, in the paper, raises the average dimension and lowers overlap. {told}"


def _pruned_when(rows: Sequence[Row]) -> str:
    """What was left of gamma when the paper preset met its loosest budget."""
    loosest = min(row["sparsity"] for row in rows)
    epochs = [
        row["pruning_epochs"]
        for row in rows
        if row["preset"] == "paper"
        and row["variant"] == "default"
        and row["sparsity"] == loosest
        and row.get("pruning_epochs") is not None
    ]
    if not epochs:
        return ""
    left = 0.5 ** int(mean(epochs))
    told = (
        f" The paper preset met {loosest}% in epoch {mean(epochs):.1f}, when gamma was at "
        f"{left:.2g} of its start."
    )
    if left < NOTHING_LEFT:
        told += (
            " So these figures compare nothing with nothing: they are of the clock that the preset "
            "had when they were measured. Today's prunes in the second and third epoch "
            "(training.md, fidelity notes; results/regularizer.json)."
        )
    return told


def _directions(rows: Sequence[Row], variant: str, without: Sequence[Row]) -> str:
    """In how many cells a variant moves as in the paper, beside that without the penalty."""
    pairs = [
        (row, other)
        for row in rows
        for other in without
        if row["variant"] == variant and _is_same(row, other)
    ]
    wider = sum(row["avg_dim"] > other["avg_dim"] for row, other in pairs)
    less = sum(row["overlap_pct"] < other["overlap_pct"] for row, other in pairs)
    return (
        f"raises the dimension in {wider} of {len(pairs)} cells of table 3 and lowers the overlap "
        f"in {less}"
    )


def _larger_gammas(results: ResultsIndex, without: Sequence[Row]) -> str:
    """How the penalty acts when it weighs more, from the figure on γ."""
    rows: list[Row] = results.read("gowalla", "fig-gamma.json") or []
    told = []
    for base in without:
        same = sorted((row for row in rows if _is_same(row, base)), key=lambda row: row["value"])
        if len(same) > 1:
            shown = "; ".join(f"gamma = {row['value']:g}: {_sharing(row)}" for row in same)
            told.append(f"{base['backbone']}, no penalty: {_sharing(base)}; {shown}.")
    if not told:
        return ""
    return (
        " Loss and penalty are both sums over the batch, divided by its positives, so gamma is "
        "that of the paper's equation at any batch size. It is not that of the authors' code, "
        "which divides the loss alone, by 10 positives: its gamma of 1 is 10 here. Average "
        "dimension, overlap and NDCG@10 at 99% by gamma: " + " ".join(told)
    )


def _sharing(row: Row) -> str:
    return f"{row['avg_dim']:.2f}, {row['overlap_pct']:.2f}%, {row['ndcg10']:.4f}"


def _stalls(results: ResultsIndex) -> str:
    rows = [row for row in _ablation_rows(results) if row["preset"] == "paper"]
    stalled: dict[str, list[float]] = {}
    for row in rows:
        if row["stalls_at"] is not None:
            cell = f"{row['variant']}, {row['backbone']}, {row['sparsity']}%"
            stalled.setdefault(cell, []).append(row["stalls_at"])
    told = [f"{cell}: {mean(places):.2f}%" for cell, places in stalled.items()]
    if not rows:
        told = [MISSING]
    return (
        "**Free pruning can stall before its budget**; the paper reports it without the decay of "
        f"gamma alone. Not reached in 50 epochs here, and finished by projection: "
        f"{'; '.join(told) or 'none'}."
    )


SENSITIVITIES = {
    "fig-gamma": "LightGCN is more sensitive to gamma than the MLP",
    "fig-buckets": "more buckets are not always better",
    "fig-threshold": "long-tail thresholds are mostly the best, and all ones as good with LightGCN",
}
"""What the paper says of its figures, by recipe."""


def _sensitivity(results: ResultsIndex) -> str:
    """NDCG@10 by value for each backbone; the paper prints curves without numbers."""
    told = []
    for recipe, claim in SENSITIVITIES.items():
        rows: list[Row] = results.read("gowalla", f"{recipe}.json") or []
        shown = "; ".join(f"{backbone}, {_by_value(rows, backbone)}" for backbone in BACKBONES)
        told.append(f"The paper says that {claim}; here: {shown if rows else MISSING}.")
    return f"**Sensitivity at 99%** (paper preset, NDCG@10). {' '.join(told)}"


def _by_value(rows: Sequence[Row], backbone: str) -> str:
    scores: dict[Any, list[float]] = {}
    for row in rows:
        if row["backbone"] == backbone:
            scores.setdefault(row["value"], []).append(row["ndcg10"])
    return ", ".join(f"{value}: {spread(found)}" for value, found in scores.items()) or MISSING


def _ablation_rows(results: ResultsIndex) -> list[Row]:
    return results.read("gowalla", "table3.json") or []


def _is_same(first: Row, second: Row) -> bool:
    names = ("backbone", "sparsity", "preset", "seed")
    return all(first[name] == second[name] for name in names)


def _shown_cerp(results: ResultsIndex, name: str, backbone: str, percent: int) -> str:
    return results.shown(**_place(name, backbone, percent))


def _place(name: str, backbone: str, percent: int) -> dict[str, Any]:
    return {**CERP[name], **GOWALLA, "backbone": backbone, "sparsity": percent}
