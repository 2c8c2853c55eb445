from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Index, Seen, ShippedModel, Table
from cerp.cli import app
from cerp.data.formats.duckdb_memory import Database, exact
from cerp.data.ids import Ids
from cerp.errors import ConfigError, DataError
from cerp.runtime import Runtime, batch


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    """Writes a model: user 7 scores items 10, 20, 30 by their first numbers, 8 by the second.

    Both took 10; the other items are known from a third user.
    """

    def write(**changes: object) -> str:
        model: dict[str, object] = {
            "facts": {},
            "users": Ids([7, 8, 700]),
            "items": Ids([10, 20, 30]),
            "head": "dot",
            "embedding": ComposedEmbedding(
                (
                    Table(
                        Index("identity"),
                        np.float32([[1, 0], [0, 1], [1, 1], [3, 1], [2, 2], [1, 4]]),
                    ),
                )
            ),
            "seen": Seen(np.array([0, 1, 2, 4]), np.array([0, 0, 1, 2], dtype=np.int32)),
        }
        path = tmp_path / "model.cerp"
        artifact.write(path, ShippedModel(**(model | changes)), artifact.Encoding())
        return str(path)

    return write


def run(*arguments: str) -> str:
    """Standard output of a command that succeeds."""
    result = CliRunner().invoke(app, ["recommend", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_json_is_one_object_with_original_ids(file):
    assert json.loads(run(file(), "--user", "7", "--json")) == {
        "user": 7,
        "recommendations": [
            {"rank": 1, "item": 20, "score": 2.0},
            {"rank": 2, "item": 30, "score": 1.0},
        ],
    }


def test_seen_items_come_when_asked_for(file):
    found = json.loads(run(file(), "-u", "7", "-k", "1", "--include-seen", "--json"))
    assert found["recommendations"] == [{"rank": 1, "item": 10, "score": 3.0}]


def test_titles_stand_beside_the_items(file):
    shown = run(file(titles=["Ten", "Twenty", "Thirty"]), "--user", "8", "-k", "2")
    assert [line.split() for line in shown.splitlines()] == [
        ["rank", "item", "score", "title"],
        ["────", "────", "──────", "──────"],
        ["1", "30", "4.0000", "Thirty"],
        ["2", "20", "2.0000", "Twenty"],
    ]


def test_liked_items_stand_for_someone_new(file):
    found = json.loads(run(file(), "--liked", "10", "--liked", "20", "--json"))
    assert found["liked"] == [10, 20]
    assert [place["item"] for place in found["recommendations"]] == [30]


def test_string_ids_stay_strings_also_when_they_look_like_numbers(file):
    path = file(users=Ids(["7", "x", "y"]), items=Ids(["a", "b", "c"]))
    assert json.loads(run(path, "--user", "7", "--json"))["user"] == "7"


EXPECTED = [
    {"user": "8", "item": "30", "rank": "1", "score": "4.0"},
    {"user": "8", "item": "20", "rank": "2", "score": "2.0"},
    {"user": "7", "item": "20", "rank": "1", "score": "2.0"},
    {"user": "7", "item": "30", "rank": "2", "score": "1.0"},
]


def test_a_table_of_users_becomes_a_table_of_lists(file, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(batch, "SCORE_BYTES", 1)  # a user a block
    (tmp_path / "users.csv").write_text("name,User-ID\nann,8\nbob,7\n")
    output = tmp_path / "lists.csv"
    shown = run(
        file(), "--users", str(tmp_path / "users.csv"), "-o", str(output), "-k", "2", "--json"
    )
    assert json.loads(shown) == {
        "output": str(output),
        "rows": 4,
        "users": 2,
        "folded_users": 0,
        "skipped_users": 0,
        "unknown_items": 0,
    }
    with output.open(newline="") as opened:
        assert list(csv.DictReader(opened)) == EXPECTED


def test_a_user_on_several_rows_gets_one_list(file, tmp_path: Path):
    (tmp_path / "ratings.csv").write_text("user,item\n8,10\n7,20\n8,30\n")
    output = tmp_path / "lists.csv"
    run(file(), "--users", str(tmp_path / "ratings.csv"), "-o", str(output), "-k", "2")
    with output.open(newline="") as opened:
        assert list(csv.DictReader(opened)) == EXPECTED


def test_tables_can_be_parquet(file, tmp_path: Path):
    users, output = tmp_path / "users.parquet", tmp_path / "it's lists.parquet"
    with Database() as database:
        database.rows(f"copy (select unnest([8, 7]) as user_id) to '{users}' (format parquet)")
        run(file(), "--users", str(users), "--output", str(output), "-k", "2")
        rows = database.rows("select * from read_parquet($file)", {"file": str(output)})
    assert rows == [(8, 30, 1, 4.0), (8, 20, 2, 2.0), (7, 20, 1, 2.0), (7, 30, 2, 1.0)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "it's lists.parquet",
        "model.cerp",
        "users.parquet",
    ]


ARABIC_SEVEN = "\N{ARABIC-INDIC DIGIT SEVEN}"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], ConfigError, "exactly one of --user, --liked, --similar, --users and --all-users"),
        (["--user", "7", "--liked", "10"], ConfigError, "exactly one of"),
        (["--user", "7", "-o", "lists.csv"], ConfigError, "belong together"),
        (["--user", "9"], DataError, "unknown user 9"),
        (["--user", "07"], DataError, "unknown user '07'"),
        (["--user", ARABIC_SEVEN], DataError, f"unknown user '{ARABIC_SEVEN}'"),
        (["--user", "7" * 5000], DataError, "unknown user '777"),
        (["--liked", "010"], DataError, "unknown item '010'"),
        (["--user", "ann"], DataError, "ids here are integers; 'ann' is a str"),
        (["--users", "none.csv", "-o", "lists.csv"], DataError, "none.csv: no such file"),
        (
            ["--users", "users.csv", "-o", "lists.txt"],
            ConfigError,
            "lists are .csv, .tsv or .jsonl",
        ),
        (["--users", "users.csv", "-o", "lists.csv"], DataError, "the columns are 'ann', '7'"),
        (
            ["--users", "unknown.csv", "-o", "lists.csv"],
            DataError,
            "unknown.csv, line 3: unknown user 9, the first of 2; .*skip_unknown=True",
        ),
        (["--users", "users.csv", "-o", "users.csv"], ConfigError, "users.csv is the file that"),
        (["--users", "users.csv", "-o", "./link.csv"], ConfigError, "link.csv is the file that"),
        (["--user", "7", "--skip-unknown"], ConfigError, "--skip-unknown belongs to --users"),
        (["--users", "unknown.csv", "-o", "none/l.csv"], ConfigError, "there is no folder none"),
    ],
)
def test_mistakes_are_named_and_leave_no_file(
    file, arguments: list[str], error, message: str, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("users.csv").write_text("ann,7\n")
    Path("unknown.csv").write_text("user\n7\n9\n07\n9\n")
    Path("link.csv").symlink_to("users.csv")
    with pytest.raises(error, match=message):
        run(file(), *arguments)
    assert {path.name for path in tmp_path.iterdir()} == {
        "link.csv",
        "model.cerp",
        "unknown.csv",
        "users.csv",
    }
    assert Path("users.csv").read_text() == "ann,7\n"


def test_tables_of_users_and_lists_have_any_name(file, tmp_path: Path):
    folder = tmp_path / "user=eve" / "[l]*"
    folder.mkdir(parents=True)
    users, output = folder / "u[1].parquet", folder / "l*.parquet"
    with Database() as database:
        database.rows(
            f"copy (select 8 as user_id) to '{folder / 'u1.parquet'}' (format parquet); "
            f"copy (select 7 as user_id) to '{users}' (format parquet)"
        )
        run(file(), "--users", str(users), "--output", str(output), "-k", "1")
        table = "read_parquet($file, hive_partitioning=false)"
        found = database.rows(f"select * from {table}", {"file": exact(output)})
    assert found == [(7, 20, 1, 2.0)]
    assert sorted(path.name for path in folder.iterdir()) == [
        "l*.parquet",
        "u1.parquet",
        "u[1].parquet",
    ]


ESCAPE = "\x1b[2J\x9b31m\u202e"
WRITTEN_OUT = r"\x1b[2J\x9b31m\u202e"


def test_what_a_terminal_would_obey_is_written_out(file, tmp_path: Path):
    path = file(items=Ids(["a", f"b{ESCAPE}\n\t", "c"]), users=Ids(["7", "8", "9"]))
    shown = run(path, "--user", "8", "-k", "1", "--include-seen")
    assert "c" in shown
    shown = run(path, "--user", "7", "--include-seen")
    assert rf"b{WRITTEN_OUT}\n\t" in shown
    assert not set(ESCAPE) & {"\x1b", "\x9b", "\u202e"} & set(shown)
    command = [sys.executable, "-m", "cerp.cli", "recommend", path, "--user", ESCAPE]
    refused = subprocess.run(command, capture_output=True, check=False)
    assert refused.returncode == 2
    assert b"\x1b" not in refused.stderr


def test_ids_like_formulas_are_written_as_they_are_with_a_note(file, tmp_path: Path):
    path = file(items=Ids(["=1+1", "b", "\rc"]), users=Ids(["7", "@x", "y"]))
    users, output = tmp_path / "users.csv", tmp_path / "lists.csv"
    users.write_text("user\n@x\n")
    command = ["recommend", path, "--users", str(users), "-o", str(output), "--include-seen"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "a spreadsheet would take them for formulas" in " ".join(result.stderr.split())
    with output.open(newline="") as table:
        assert [row[:2] for row in csv.reader(table)][1:] == [
            ["@x", "\rc"],
            ["@x", "b"],
            ["@x", "=1+1"],
        ]
    assert b'"\rc"' in output.read_bytes()
    as_parquet = tmp_path / "lists.parquet"
    run(path, "--users", str(users), "-o", str(as_parquet), "--include-seen")
    with Database() as database:
        found = database.rows("select item from read_parquet($file)", {"file": str(as_parquet)})
    assert found == [("\rc",), ("b",), ("=1+1",)]


def test_unknown_users_are_found_before_any_list_is_made(file, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(batch, "SCORE_BYTES", 1)  # a user a block
    monkeypatch.setattr(Runtime, "recommend_many", lambda *_, **__: pytest.fail("a list"))
    (tmp_path / "users.csv").write_text("user\n7\n8\n9\n")
    with pytest.raises(DataError, match="line 4: unknown user 9;"):
        run(file(), "--users", str(tmp_path / "users.csv"), "-o", str(tmp_path / "lists.csv"))


def test_unknown_users_are_skipped_when_asked_for_and_counted(file, tmp_path: Path):
    (tmp_path / "users.csv").write_text("user\n8\n9\nann\n7\n9\n")
    output = tmp_path / "lists.csv"
    asked = ("--users", str(tmp_path / "users.csv"), "-o", str(output), "-k", "2", "--skip-unknown")
    assert json.loads(run(file(), *asked, "--json"))["skipped_users"] == 2
    with output.open(newline="") as opened:
        assert list(csv.DictReader(opened)) == EXPECTED
    shown = CliRunner().invoke(app, ["recommend", file(), *asked]).stderr
    assert "skipped 2 users" in shown


def test_two_commands_may_write_one_table(file, tmp_path: Path, monkeypatch):
    def meanwhile(runtime: Runtime, *given, **options):
        monkeypatch.undo()
        run(path, "--users", str(tmp_path / "users.csv"), "-o", str(output), "-k", "1")
        return runtime.recommend_many(*given, **options)

    path, output = file(), tmp_path / "lists.csv"
    (tmp_path / "users.csv").write_text("user\n8\n7\n")
    monkeypatch.setattr(Runtime, "recommend_many", meanwhile)
    run(path, "--users", str(tmp_path / "users.csv"), "-o", str(output), "-k", "2")
    with output.open(newline="") as opened:
        assert list(csv.DictReader(opened)) == EXPECTED


def test_recommending_needs_neither_torch_nor_duckdb(file):
    code = (
        "import sys; from cerp.cli import app; app(['recommend', sys.argv[1], '-u', '7'],"
        " standalone_mode=False); sys.exit(bool({'torch', 'duckdb'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code, file()], check=False).returncode == 0


def test_an_empty_list_says_why(file, tmp_path: Path):
    (tmp_path / "items.csv").write_text("item,kind\n10,a\n20,b\n", encoding="utf-8")
    asked = ["--user", "7", "--items", str(tmp_path / "items.csv"), "--where", "kind = 'a'"]
    result = CliRunner().invoke(app, ["recommend", file(), *asked], catch_exceptions=False)
    assert result.exit_code == 0
    assert "no item is left to recommend" in " ".join(result.output.split())


def test_a_history_whose_columns_cannot_be_told_says_how_to_name_them(file, tmp_path: Path):
    history = tmp_path / "odd.csv"
    history.write_text("kunde,artikel\nann,tea\nbo,jam\n")
    asked = ["recommend", file(), "--all-users", "--history", str(history)]
    result = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "lists.csv")])
    assert isinstance(result.exception, DataError)
    assert "let line 1 name them user and item" in str(result.exception)


def test_one_is_not_called_many(file, tmp_path: Path):
    history = tmp_path / "history.csv"
    history.write_text("user,item\n9,10\n9,99\n")
    asked = ["recommend", file(), "--all-users", "--history", str(history)]
    result = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "lists.csv")])
    assert "lists of 1 new user are made of the history" in result.stderr
    assert "the model does not know 1 item of the files given" in result.stderr


def test_scores_have_no_more_digits_than_a_model_computes_with(file, tmp_path: Path):
    vectors = np.float32([[0.1, 0], [0, 1], [1, 1], [3, 1], [2, 2], [1, 4]])
    path = file(embedding=ComposedEmbedding((Table(Index("identity"), vectors),)))
    for name in ("lists.csv", "lists.jsonl"):
        run(path, "--all-users", "-k", "1", "-o", str(tmp_path / name))
    assert (tmp_path / "lists.csv").read_text().splitlines()[1] == "7,20,1,0.2"
    assert json.loads((tmp_path / "lists.jsonl").read_text().splitlines()[0])["score"] == 0.2


def test_titles_begin_where_their_column_does(file):
    lines = run(file(titles=["Ten", "A longer title", "T"]), "--user", "7").splitlines()
    starts = {lines[0].index("title"), lines[2].index("A longer"), lines[3].rindex("T")}
    assert len(starts) == 1
