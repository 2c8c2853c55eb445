"""Pages of tables: the same rows as HTML and as Markdown."""

from __future__ import annotations

import re

from cerp.pages.tables import TablePage, TableSection, best_in, markdown_table, to_html, to_markdown

SECTION = TableSection(
    "mf, 99%",
    ("method", "NDCG@10"),
    [("cerp", "0.2"), ("a|b", "0.1")],
    ["<note>"],
    best_in(1, [2, 1]),
)
PAGE = TablePage("Compared", [SECTION], ["A note."], "Users without truth are left out.")


def test_the_best_of_a_column_are_all_that_have_the_highest_score():
    assert best_in(3, [1.0, None, 2.0, 2.0]) == {(2, 3), (3, 3)}
    assert best_in(0, [None]) == frozenset()


def test_where_all_are_equal_none_is_best():
    assert best_in(0, [0.0, 0.0, None]) == frozenset()
    assert best_in(0, [0.5]) == {(0, 0)}


def test_markdown_aligns_escapes_and_has_the_best_in_bold():
    assert markdown_table(SECTION.header, SECTION.rows, best=SECTION.best).splitlines() == [
        "| method | NDCG@10 |",
        "| ------ | ------: |",
        "| cerp   | **0.2** |",
        "| a\\|b   |     0.1 |",
    ]


def test_the_page_has_the_best_in_bold_and_escapes():
    html = to_html(PAGE)
    assert "<td><strong>0.2</strong></td>" in html
    assert "<td>0.1</td>" in html
    assert "&lt;note&gt;" in html


def test_conventions_come_once_and_folded():
    html, markdown = to_html(PAGE), to_markdown(PAGE)
    assert html.count(PAGE.conventions) == markdown.count(PAGE.conventions) == 1
    assert re.search(r"<details><summary>[^<]*</summary><p>Users without truth", html)
    assert "<details><summary>" in markdown
    assert PAGE.conventions not in to_markdown(PAGE, conventions=False)
