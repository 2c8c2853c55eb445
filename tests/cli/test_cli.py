from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cerp
from cerp.artifact import embedding_bytes, section_bytes
from cerp.cli import app, main
from cerp.comparison.tuned import read_tuned
from cerp.data.synthetic import synthetic


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, as a user meets it."""
    return subprocess.run(
        [sys.executable, "-m", "cerp.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=None if not environment else {**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three users, four items. Item 0 is the most popular; users 0 and 1 take 2 in test."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "train.txt").write_text("0 0 1\n1 0 3\n2 0\n")
    (folder / "valid.txt").write_text("0 3\n")
    (folder / "test.txt").write_text("0 2\n1 2\n2 1\n")
    return folder


def test_threads_are_told_how_to_wait_before_torch_is_imported():
    code = """
import os, sys
import cerp.cli
sys.argv = ["cerp", "--version"]
try:
    cerp.cli.main()
except SystemExit:
    print("GOMP_SPINCOUNT" in os.environ, "torch" in sys.modules)
"""
    known = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in known}
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert told.stdout.splitlines()[-1] == "True False"


def test_version():
    assert run("--version").stdout == f"cerp {cerp.__version__}\n"


@pytest.mark.parametrize(
    "verb",
    [
        *([], ["data"], ["data", "info"], ["data", "split"], ["data", "fetch"], ["train"]),
        *(["evaluate"], ["export"], ["inspect"], ["recommend"], ["serve"]),
    ],
)
def test_help_shows_examples(verb: list[str]):
    result = run(*verb, "--help")
    assert result.returncode == 0
    assert "Usage: " in result.stdout
    assert verb == ["data"] or "Examples:\n" in result.stdout


def test_evaluate_json_is_one_object_with_full_precision(small: Path):
    result = run("evaluate", "popularity", "--data", str(small), "--unseen-items", "--json")
    found = json.loads(result.stdout)
    # User 0 has 2 left (0, 1, 3 are known): rank 1. User 1 has 1, 2 left; both 1 and 3 have
    # one training user, so 1 comes before 2: rank 2. User 2 has 1, 3, 2 left: 1 is rank 1.
    assert found["users"] == 3
    assert found["ndcg@10"] == pytest.approx((1 + 1 / 1.5849625007211562 + 1) / 3, abs=1e-12)
    assert found["recall@10"] == 1.0
    assert result.stderr == ""


def test_two_models_are_compared_with_an_interval(small: Path):
    result = run("evaluate", "popularity", "random", "--data", str(small), "--json")
    found = json.loads(result.stdout)
    (pair,) = found["differences"]
    gap = found["models"]["popularity"]["ndcg@10"] - found["models"]["random"]["ndcg@10"]
    assert pair["mean"] == pytest.approx(gap)
    assert pair["low"] <= pair["mean"] <= pair["high"]


def test_evaluate_prints_a_table_and_compares_by_the_cut_off_given(small: Path):
    result = run("evaluate", "popularity", "random", "--data", str(small), "-k", "2")
    assert result.stdout.split("\n")[0].split()[:4] == ["model", "ndcg@2", "recall@2", "coverage@2"]
    assert "difference in ndcg@2" in result.stdout
    assert "popularity - random" in result.stdout


def test_a_metric_that_was_not_computed_is_named(small: Path):
    result = run("evaluate", "popularity", "random", "-d", str(small), "--metric", "ndcg@7")
    assert result.returncode == 2
    assert "unknown metric 'ndcg@7'; these were computed: ndcg@5" in result.stderr


def test_conventions_are_a_line_beside_the_numbers_and_whole_where_asked_for(small: Path):
    line = run("evaluate", "popularity", "--data", str(small)).stderr.strip()
    assert line.count("\n") <= 2
    told = " ".join(line.split())
    assert "1 item that training never saw is not recommended" in told
    assert "ranked over all items" in told
    whole = run("evaluate", "popularity", "--data", str(small), "--conventions").stderr
    assert "Full ranking over all items" in " ".join(whole.split())
    assert whole.count("conventions: ") == 1


def test_evaluate_prints_the_best_model_first(small: Path):
    table = run("evaluate", "random", "popularity", "--data", str(small), "-k", "2").stdout
    scores = [float(line.split()[1]) for line in table.splitlines()[2:4]]
    assert scores == sorted(scores, reverse=True)


def test_data_info_reports_sizes_fingerprint_and_leak(small: Path):
    found = json.loads(run("data", "info", str(small), "--json").stdout)
    assert (found["users"], found["items"], found["train"]) == (3, 4, 5)
    assert found["id_leak"]["window"] == 7
    assert len(found["fingerprint"]) == 64


def test_data_info_warns_in_plain_words_when_ids_give_the_test_set_away(tmp_path: Path):
    # Blocks of ten users with consecutive ids share ten items; each leaves one for test.
    train, test = [], []
    for user in range(200):
        items = [user // 10 * 10 + step for step in range(10)]
        held_out = items.pop(user % 10)
        train.append(" ".join(map(str, [user, *items])))
        test.append(f"{user} {held_out}")
    (tmp_path / "train.txt").write_text("\n".join(train))
    (tmp_path / "test.txt").write_text("\n".join(test))
    result = run("data", "info", str(tmp_path))
    assert "warning: the numbering of users gives test interactions away" in " ".join(
        result.stderr.split()
    )


def test_data_split_writes_a_folder_that_evaluate_takes(tmp_path: Path):
    rows = "".join(
        f"u{user},i{(user * 7 + step) % 40},5\n" for user in range(30) for step in range(10)
    )
    (tmp_path / "log.csv").write_text("who,what,stars\n" + rows)
    target = tmp_path / "split"
    made = run(
        "data",
        "split",
        str(tmp_path / "log.csv"),
        "--user",
        "who",
        "--item",
        "what",
        "-o",
        str(target),
    )
    assert made.returncode == 0, made.stderr
    assert json.loads(run("evaluate", "random", "-d", str(target), "--json").stdout)["users"] == 30


def test_data_fetch_lists_what_is_here(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    found = json.loads(run("data", "fetch", "--json", CERP_DATA_DIR=str(tmp_path)).stdout)
    assert set(found) == {"synthetic", "gowalla", "yelp2020", "mine"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "info", "nowhere.csv"], "error: nowhere.csv: no such file or folder"),
        (["data", "fetch", "movielens"], "is no public data set; choose one of gowalla, yelp2020"),
        (
            ["evaluate", "bpr", "--data", "synthetic"],
            "bpr: no such file or folder, and no model that needs no training; those are popul",
        ),
        (["evaluate", "popularity"], "say which data with --data"),
        (["train", "synthetic"], "say where the run goes, before it is trained: -o RUN"),
        (["frobnicate"], "No such command"),
    ],
)
def test_a_users_mistake_exits_with_2_and_no_traceback(arguments: list[str], message: str):
    result = run(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_failure_exits_with_1(tmp_path: Path):
    refused = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    code = "import cerp.data.download as d; d.RETRY_AFTER_SECONDS = (); "
    code += "import sys; sys.argv = ['cerp', 'data', 'fetch', 'gowalla']; "
    code += "from cerp.cli import main; main()"
    environment = {**os.environ, **refused, "CERP_DATA_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 1
    assert "put the files there by hand" in result.stderr
    assert "Traceback" not in result.stderr


def test_interrupted_while_it_starts_it_says_nothing():
    # An import that takes long, in which Ctrl-C is pressed.
    code = """
import builtins, os, signal, sys
sys.argv = ["cerp", "--version"]
imported = builtins.__import__

def pressed(name, *rest):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, *rest)

import cerp.start
builtins.__import__ = pressed
cerp.start.main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


def test_a_full_disk_behind_standard_output_is_an_error_without_a_traceback():
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "cerp.cli", "data", "info", "synthetic", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == "error: cannot write standard output: No space left on device\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    folder = tmp_path_factory.mktemp("trained")
    cerp.Splits.save(synthetic(120, 80, 1500).split(seed=0), folder / "data")
    options = "--budget 95% --budget 300 --backbone mf --dim 8 --epochs 2 --prune-epochs 2"
    result = run(
        "train", str(folder / "data"), *options.split(), "-o", str(folder / "run"), "--json"
    )
    assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_train_json_has_a_model_for_each_budget_in_the_order_given(trained):
    _, found = trained
    # 200 entities of dimension 8: 5% of 1,600 values are 80.
    assert [(model["budget"], model["limit"]) for model in found["models"]] == [
        ("95%", 80),
        ("300", 300),
    ]
    for model in found["models"]:
        assert model["nnz"] <= model["limit"]
        assert {"avg_dim", "overlap", "valid", "test", "seconds"} <= model.keys()
        assert 0 <= model["test"]["ndcg@10"] <= 1


def test_train_json_says_how_rows_are_chosen_and_what_codes_take(trained, tmp_path: Path):
    folder, found = trained
    for model in found["models"]:
        assert (model["assignment"], model["codebooks"]) == ("learned", 8)
        assert model["code_bytes"] > 0
    options = "--budget 50% --backbone mf --dim 8 --epochs 1 --prune-epochs 1 --json"
    learned = "--assignment learned --codebooks 3 --buckets 9"
    result = run(
        "train", str(folder / "data"), *options.split(), *learned.split(), "-o", str(tmp_path / "a")
    )
    assert result.returncode == 0, result.stderr
    [model] = json.loads(result.stdout)["models"]
    assert (model["assignment"], model["codebooks"], model["buckets"]) == ("learned", 3, 9)
    sections = section_bytes((tmp_path / "a" / "model-50pct.cerp").read_bytes())
    # 200 entities, 3 books, 4 bits to tell 9 rows apart: 300 bytes, or fewer where they deflate.
    assert 0 < model["code_bytes"] == sections["codes"] <= 300
    assert model["embedding_bytes"] == embedding_bytes(sections)
    hashed = run(
        *("train", str(folder / "data"), *options.split(), "--assignment", "hash"),
        *("-o", str(tmp_path / "b")),
    )
    [model] = json.loads(hashed.stdout)["models"]
    assert (model["assignment"], model["codebooks"], model["code_bytes"]) == ("hash", 2, 0)
    none = run(
        *("train", str(folder / "data"), *options.split(), "--method", "dhe"),
        *("-o", str(tmp_path / "c")),
    )
    assert none.returncode == 0, none.stderr
    [model] = json.loads(none.stdout)["models"]
    assert [model[key] for key in ("assignment", "codebooks", "code_bytes")] == [None] * 3


def test_more_codebooks_than_a_hash_has_are_refused_in_the_words_of_the_command_line(trained):
    folder, _ = trained
    options = ["--assignment", "hash", "--codebooks", "4", "-o", str(folder / "none")]
    result = run("train", str(folder / "data"), *options)
    assert result.returncode == 2
    assert "a hash has two codebooks, not 4" in result.stderr
    assert "--assignment learned" in result.stderr


def test_a_run_folder_holds_a_file_for_every_product(trained):
    folder, _ = trained
    assert {path.name for path in (folder / "run").iterdir()} == {
        ".lock",
        "plan.json",
        "coded.safetensors",
        "searched.safetensors",
        "judged-popularity.json",
        "metrics.json",
        "curves.jsonl",
        "split",
        *(f"trained-{budget}.safetensors" for budget in ("95pct", "300")),
        *(f"judged-{budget}.json" for budget in ("95pct", "300")),
        *(f"shipped-{budget}.json" for budget in ("95pct", "300")),
        *(f"model-{budget}.cerp" for budget in ("95pct", "300")),
    }


def test_evaluate_gives_a_run_the_figures_that_training_gave(trained):
    folder, found = trained
    result = run("evaluate", str(folder / "run"), "-d", str(folder / "data"), "--json")
    models = json.loads(result.stdout)["models"]
    for trained_model in found["models"]:
        again = models[f"{folder / 'run'} {trained_model['budget']}"]
        assert again["ndcg@10"] == trained_model["test"]["ndcg@10"]


def test_evaluate_refuses_a_run_of_other_data(trained):
    folder, _ = trained
    result = run("evaluate", str(folder / "run"), "-d", "synthetic")
    assert result.returncode == 2
    assert "was trained on other data" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "100%"], "the pruned share must be above 0% and below 100%"),
        (["--budget", "20B"], "an embedding of 20 bytes is too small here"),
        (["--backbone", "ncf"], "unknown backbone 'ncf'; choose one of lightgcn, mf, mlp"),
        (["--assignment", "hash", "--buckets", "2"], "the smallest bucket count that can is 15"),
        (["--budget", "90"], "write --budget 90% to prune 90% of the full table"),
        (["--resume", "--overwrite"], "goes on with a run, --overwrite removes it: give one"),
        (["--no-mix", "--mix-together"], "--no-mix and --mix-together contradict each other"),
        (["--mix-sharp", "--mix-together"], "--mix-sharp and --mix-together contradict each other"),
        (["--epochs", "0"], "epochs is 0; it must be above 0"),
    ],
)
def test_train_refuses_the_impossible(trained, options: list[str], message: str):
    folder, _ = trained
    result = run("train", str(folder / "data"), *options, "-o", str(folder / "none"))
    assert not (folder / "none").exists()
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def export(folder: Path, *options: str) -> dict[str, Any]:
    arguments = ["-d", str(folder / "data"), "-o", str(folder / "model.cerp"), *options, "--json"]
    result = run("export", str(folder / "run"), *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_export_judges_every_precision_and_writes_the_one_asked_for(trained):
    folder, _ = trained
    found = export(folder, "--budget", "95%", "--values", "int8")
    assert found["total_bytes"] == (folder / "model.cerp").stat().st_size
    assert [entry["values"] for entry in found["tried"]] == ["fp32", "fp16", "int8", "int4"]
    sizes = {entry["values"]: entry["embedding_bytes"] for entry in found["tried"]}
    assert sizes["fp32"] > sizes["fp16"]
    assert sizes["int8"] > sizes["int4"]
    assert all(0 <= entry["valid_ndcg@10"] <= 1 for entry in found["tried"])
    assert cerp.load(folder / "model.cerp").model.facts["budget"] == "95%"


def test_export_makes_an_encoding_that_is_named_whole_alone(trained):
    folder, _ = trained
    found = export(folder, "--budget", "95%", "--values", "int8", "--graph", "edges")
    assert [(entry["values"], entry["graph"]) for entry in found["tried"]] == [("int8", "edges")]


@pytest.mark.slow
def test_export_keeps_the_precision_and_the_size_of_a_run_under_a_limit(trained, tmp_path: Path):
    folder, _ = trained
    options = "--budget 2KB --backbone mf --dim 8 --epochs 1 --prune-epochs 1"
    place = tmp_path / "a run"
    result = run("train", str(folder / "data"), *options.split(), "-o", str(place))
    assert f"cerp serve '{place / 'model-2KB.cerp'}'" in " ".join(result.stderr.split())
    target = tmp_path / "model.cerp"
    result = run("export", str(place), "-d", str(folder / "data"), "-o", str(target))
    assert result.returncode == 0, result.stderr
    assert target.read_bytes() == (place / "model-2KB.cerp").read_bytes()


def test_train_says_why_there_is_no_file(trained, tmp_path: Path):
    folder, _ = trained
    options = "--budget 50% --method dhe --backbone mf --dim 8 --epochs 1 -o"
    result = run("train", str(folder / "data"), *options.split(), str(tmp_path / "run"))
    assert result.returncode == 0, result.stderr
    assert "no file: 50%: DeepHashEmbedding cannot be written" in " ".join(result.stderr.split())


SEVERAL = "--portfolio filter,lightgcn,mixture --dim 8 --epochs 2 --prune-epochs 1"


def test_a_file_size_alone_tries_several_kinds_of_model(trained, tmp_path: Path):
    folder, _ = trained
    data, place = str(folder / "data"), tmp_path / "sized"
    command = ["train", data, "--max-file-size", "9KB", *SEVERAL.split(), "-o", str(place)]
    result = run(*command, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [one["name"] for one in found["tried"]] == ["filter", "lightgcn", "mixture"]
    keys = {"name", "file_bytes", "valid_ndcg10", "seconds", "why_not"}
    assert all(keys <= one.keys() for one in found["tried"])
    [model] = found["models"]
    [winner] = [one for one in found["tried"] if one["name"] == found["winner"]]
    assert winner["file_bytes"] == model["file_bytes"] <= 9000
    assert winner["valid_ndcg10"] == model["valid"]["ndcg@10"]
    judged = run("evaluate", str(place), "-d", data, "--json")
    assert json.loads(judged.stdout)["ndcg@10"] == model["test"]["ndcg@10"]
    again = run(*command, "--resume")
    assert again.returncode == 0, again.stderr
    assert "file bytes" in again.stdout
    assert "has the best ndcg@10 on validation" in " ".join(again.stderr.split())


def test_a_portfolio_is_refused_beside_a_named_kind(small: Path, tmp_path: Path):
    words = ("train", str(small), "-o", str(tmp_path / "run"))
    result = run(*words, "--method", "filter", "--portfolio", "filter")
    assert result.returncode == 2
    assert "--portfolio filter is for several kinds of model, and with method" in result.stderr
    result = run(*words, "--time-limit", "10m")
    assert "--time-limit 10m is for several kinds of model" in result.stderr


def test_export_under_a_limit_writes_the_best_that_fits(trained):
    folder, _ = trained
    found = export(folder, "--max-size", "900B")
    assert found["total_bytes"] == (folder / "model.cerp").stat().st_size
    best = max(entry["valid_ndcg@10"] for entry in found["tried"] if entry["fits"])
    chosen = next(entry for entry in found["tried"] if entry["values"] == found["values"])
    assert (chosen["fits"], chosen["valid_ndcg@10"]) == (True, best)
    assert chosen["embedding_bytes"] <= 900


def test_export_says_that_a_run_kept_rounded_values(trained, tmp_path: Path):
    folder, _ = trained
    data, place = str(folder / "data"), tmp_path / "rounded"
    options = "--backbone mf --budget 80% --values int8 --dim 8 --epochs 1 --prune-epochs 1"
    assert run("train", data, *options.split(), "-o", str(place)).returncode == 0
    command = ["export", str(place), "-d", data, "-o", str(tmp_path / "model.cerp"), "--json"]
    finer = run(*command, "--values", "fp32")
    assert json.loads(finer.stdout)["rounded_to"] == "int8"
    told = " ".join(finer.stderr.split())
    assert "kept its values rounded to int8, so that fp32 has the same values" in told
    same = run(*command)
    assert (json.loads(same.stdout)["rounded_to"], "rounded" in same.stderr) == (None, False)


def test_export_puts_given_titles_into_a_file_of_limited_size_too(trained, tmp_path: Path):
    folder, _ = trained
    items = cerp.load(folder / "run" / "model-95pct.cerp").items.values.tolist()
    titles = tmp_path / "titles.csv"
    titles.write_text(f"item,title\n{items[2]},The Third\n", encoding="utf-8")
    export(folder, "--titles", str(titles), "--max-file-size", "100KB")
    found = cerp.load(folder / "model.cerp").titles
    assert found == [str(items[0]), str(items[1]), "The Third", *map(str, items[3:])]


def test_export_names_the_models_there_are(trained):
    folder, _ = trained
    options = ["-d", str(folder / "data"), "-o", "unused", "--budget", "50%"]
    result = run("export", str(folder / "run"), *options)
    assert result.returncode == 2
    assert "no model for '50%'; it has 95%, 300" in result.stderr


def test_evaluate_judges_a_file_as_its_run(trained):
    folder, found = trained
    file = folder / "run" / "model-95pct.cerp"
    result = run("evaluate", str(file), "-d", str(folder / "data"), "--json")
    judged = json.loads(result.stdout)["ndcg@10"]
    assert judged == pytest.approx(found["models"][0]["test"]["ndcg@10"], abs=1e-6)


def test_evaluate_refuses_a_file_of_other_data(trained):
    folder, _ = trained
    result = run("evaluate", str(folder / "run" / "model-95pct.cerp"), "-d", "synthetic")
    assert result.returncode == 2
    assert "was made of other data" in result.stderr


def test_train_takes_the_settings_that_tune_found(tmp_path: Path):
    best = {"method": "ud", "backbone": "mf", "settings": {"dim": 8, "train": {"epochs": 1}}}
    (tmp_path / "best.json").write_text(json.dumps(best))
    cerp.Splits.save(synthetic(120, 80, 1500).split(seed=0), tmp_path / "data")
    options = ["--settings", str(tmp_path / "best.json"), "--budget", "50%", "--json"]
    options += ["-o", str(tmp_path / "run")]
    result = run("train", str(tmp_path / "data"), *options)
    (model,) = json.loads(result.stdout)["models"]
    assert model["nnz"] == 200 * 4  # UD, half of d = 8


def test_settings_of_another_method_are_refused(tmp_path: Path):
    best = {"method": "ud", "backbone": "mf", "settings": {}}
    (tmp_path / "best.json").write_text(json.dumps(best))
    options = ["--settings", str(tmp_path / "best.json"), "--method", "qr", "-o", "none"]
    result = run("train", "synthetic", *options)
    assert result.returncode == 2
    assert "holds settings of ud on mf; leave out --method and --backbone" in result.stderr


def test_what_was_fixed_in_a_search_stays_fixed(tmp_path: Path):
    best = {"method": "ud", "backbone": "mf", "fixed": {"dim": 8, "train": {"epochs": 2}}}
    found = {"settings": {"train": {"learning_rate": 0.25}}}
    (tmp_path / "best.json").write_text(json.dumps(best | found))
    assert read_tuned(tmp_path / "best.json").settings == {
        "dim": 8,
        "train": {"epochs": 2, "learning_rate": 0.25},
    }


def test_an_interruption_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    @app.command("wait")
    def wait() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["cerp", "wait"])
    with pytest.raises(SystemExit) as ended:
        main()
    app.registered_commands.pop()
    assert (ended.value.code, capsys.readouterr().err) == (130, "interrupted\n")
