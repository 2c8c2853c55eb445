"""The page in a real browser: it ranks as Python does, and people can use it."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import uvicorn

import cerp
import cerp.server
from cerp.artifact import Encoding, FilterTerm, Mixing, decode, encode
from cerp.artifact.container import pack, unpack
from cerp.artifact.model import ComposedEmbedding, LeastSquares, Seen, ShippedModel, Table
from cerp.assignment.index import Index
from cerp.data.ids import Ids
from cerp.data.splits import Splits
from cerp.export.item_only import items_only
from cerp.export.to_arrays import ship_filter
from cerp.graph.arithmetic import natural_log
from cerp.graph.filter import Exponents
from cerp.graph.history_sums import HistorySums
from cerp.graph.sharpening import Sharpening
from cerp.runtime import Runtime
from cerp.server.app import create_app
from forged_neighbours import FORGERIES, forged
from forged_sums import FORGED_MIXTURES, FORGED_SUMS, forged_mixture, forged_sums
from golden_cold_start import COLD
from golden_fields import GOLDEN_FIELDS
from golden_filter import FILTER, MIXTURE, SHARP_FILTER
from golden_lookup import GOLDEN_LOOKUP
from golden_model import GOLDEN_CODED
from golden_neighbours import NEIGHBOURS
from golden_sums import SUMS, SUMS_MIXTURE
from made_up_section import declare_prices, priced
from plain_decoder import metadata_of
from small_cold_start import UNSEEN_ITEMS, cold_model, warm_model
from small_filters import (
    EXPONENTS,
    SHARPENING,
    sharpened,
    small_filter,
    small_mixture,
    small_sums_mixture,
)
from small_models import (
    BACKBONES,
    DIM,
    ENTITIES,
    NUM_ITEMS,
    NUM_USERS,
    coded,
    coded_model,
    normal,
    pruned,
    small_model,
)
from small_neighbours import small_neighbours

if TYPE_CHECKING:
    from playwright.sync_api import (
        Browser,
        BrowserContext,
        Locator,
        Page,
        Route,
    )

PAGE_FILES = Path(cerp.server.__file__).parent / "page"

DECODE = """async (file) => {
  const { Model } = await import("/model.js");
  return Model.decode(Uint8Array.from(atob(file), (c) => c.charCodeAt(0)).buffer);
}"""
RANK_USERS = """async ([decode, file]) => {
  const model = await decode(file);
  return JSON.stringify(model.search("users", "", Infinity).map(({ id }) =>
    model.recommend(id, { k: 20 }).map(({ id, score }) => [id, score])));
}"""
RANK_TASTE = """async ([decode, file, liked]) => {
  const model = await decode(file);
  return model.recommendFor(liked, { k: Infinity }).map(({ id, score }) => [id, score]);
}"""
RANK_TASTES = """async ([decode, file, tastes]) => {
  const model = await decode(file);
  const pairs = (list) => list.map(({ id, score }) => [id, score]);
  const items = model.search("items", "", Infinity).map(({ id }) => id);
  return {
    tastes: tastes.map((liked) => pairs(model.recommendFor(liked, { k: Infinity }))),
    similar: items.map((item) => pairs(model.similarItems(item, items.length))),
    users: model.search("users", "", Infinity),
  };
  }"""
RANK_COLD = """async ([decode, file, liked]) => {
  const model = await decode(file);
  const pairs = (list) => list.map(({ id, score }) => [id, score]);
  const [user] = model.search("users", "", 1);
  const options = { k: Infinity, excludeSeen: false, unseenItems: true };
  return [
    pairs(model.recommendFor([], { k: 7 })),
    pairs(model.recommendFor(liked, { k: 7 })),
    pairs(model.recommendFor([], options)),
    pairs(model.recommend(user.id, options)),
  ];
}"""
LOGARITHMS = """async (values) => {
  const { naturalLog } = await import("/filter.js");
  return values.map(naturalLog);
}"""
RANK_EVERYONE = """async ([decode, file, excludeSeen, taste]) => {
  const model = await decode(file);
  const pairs = (list) => list.map(({ id, score }) => [id, score]);
  const [users, items] = ["users", "items"].map((kind) =>
    model.search(kind, "", Infinity).map(({ id }) => id));
  const k = items.length;
  return {
    users: users.map((user) => pairs(model.recommend(user, { k, excludeSeen }))),
    seen: users.map((user) => excludeSeen ? model.history(user).items.map(({ id }) => id) : []),
    similar: items.map((item) => pairs(model.similarItems(item, k))),
    scores: model.score(users[0], items),
    taste: taste && pairs(model.recommendFor(taste, { k })),
  };
}"""


class LiveServer(uvicorn.Server):
    """A server in a thread of this process."""

    url: str


@contextmanager
def live(model: ShippedModel, file: bytes | None = None) -> Iterator[LiveServer]:
    file = encode(model, Encoding()) if file is None else file
    app = create_app(Runtime(model), encode(model, Encoding()))
    app.state.served.file.content = file
    server = LiveServer(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    server.url = f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}/"
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join()


def expect(part: Locator) -> Any:
    """Playwright's own, imported where a test runs: without it the tests are still collected."""
    from playwright.sync_api import expect as playwright_expect

    return playwright_expect(part)


def refused(message: str) -> AbstractContextManager[object]:
    """Around a script of the page that must fail with this message."""
    from playwright.sync_api import Error

    return pytest.raises(Error, match=message)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with live(small_model("lightgcn")) as server:
        yield server.url


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(10_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that may not have an error that nobody caught."""
    page = context.new_page()
    uncaught: list[object] = []
    page.on("pageerror", lambda error: uncaught.append(error))
    yield page
    assert uncaught == []


@pytest.fixture(scope="module")
def blank(browser: Browser, url: str) -> Iterator[Page]:
    """A page of the server that has nothing on it, to run model.js in."""
    page = browser.new_page()
    page.goto(f"{url}health")
    yield page
    page.close()


@pytest.fixture
def ranks_alike(blank: Page) -> Callable[[bytes], None]:
    """Asserts that model.js and Python make the same of a file: every list of every user."""

    def check(file: bytes) -> None:
        runtime = Runtime(decode(file))
        users, items = runtime.users.values.tolist(), runtime.items.values.tolist()
        k, has_seen = len(items), runtime.model.seen is not None
        taste = None if runtime.model.head == "tower" else [str(item) for item in items[4:7]]
        decode_file = blank.evaluate_handle(f"() => {DECODE}")
        ranked = blank.evaluate(RANK_EVERYONE, [decode_file, as_base64(file), has_seen, taste])
        assert ranked["users"] == [
            as_text(runtime.recommend(user, k, exclude_seen=has_seen)) for user in users
        ]
        assert ranked["seen"] == [
            [str(item) for item in runtime.seen(user)] if has_seen else [] for user in users
        ]
        assert ranked["similar"] == [as_text(runtime.similar_items(item, k)) for item in items]
        assert ranked["scores"] == runtime.score(users[0], items).tolist()
        if taste:
            # A linear system is solved on the way, and not in the same order of operations.
            expected = dict(as_text(runtime.recommend_for(items[4:7], k)))
            assert dict(ranked["taste"]) == pytest.approx(expected, rel=1e-5, abs=1e-5)

    return check


def as_base64(file: bytes) -> str:
    return base64.b64encode(file).decode()


def as_text(best: Iterable[tuple[Any, float]]) -> list[list[Any]]:
    return [[str(item), score] for item, score in best]


@pytest.mark.parametrize("values", ["fp32", "fp16", "int8", "int4"])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_python_and_javascript_rank_alike_for_every_user(ranks_alike, backbone: str, values: Any):
    ranks_alike(encode(small_model(backbone), Encoding(values=values)))


@pytest.mark.parametrize("values", ["fp32", "fp16", "int8", "int4"])
@pytest.mark.parametrize("backbone", ["mf", "mlp", "lightgcn"])
@pytest.mark.parametrize("books", [2, 4])
def test_learned_codes_rank_alike(ranks_alike, books: int, backbone: str, values: Any):
    ranks_alike(encode(coded_model(backbone, books), Encoding(values=values)))


def test_codes_of_both_kinds_and_of_one_row_rank_alike(ranks_alike):
    tables = (
        pruned(RNG, Index("coded", 9, codes=np.arange(ENTITIES, dtype=np.int32) // 8), 9),
        pruned(RNG, coded(RNG, 300), 300),
        pruned(RNG, coded(RNG, 1), 2),
    )
    embedding = ComposedEmbedding(tables)
    file = encode(replace(small_model(), embedding=embedding), Encoding())  # and with positions
    described = metadata_of(file)["embedding"]["tables"]
    kinds = [table["index"]["codes"] for table in described]
    assert kinds == ["deflated", "planes", "planes"]
    ranks_alike(file)


def test_the_golden_file_of_codes_ranks_alike(ranks_alike):
    ranks_alike(GOLDEN_CODED.read_bytes())


@pytest.mark.parametrize(
    ("backbone", "seen"),
    [
        *((backbone, True) for backbone in BACKBONES),
        *((backbone, False) for backbone in BACKBONES if backbone != "lightgcn"),  # needs the graph
    ],
)
def test_what_training_never_saw_ranks_alike(
    ranks_alike, blank: Page, backbone: str, *, seen: bool
):
    file = encode(cold_model(backbone), Encoding("int8", seen=seen))
    ranks_alike(file)
    runtime = Runtime(decode(file))
    unseen = [] if backbone == "mlp" else runtime.items.decode(UNSEEN_ITEMS)
    decode_file = blank.evaluate_handle(f"() => {DECODE}")
    asked = [decode_file, as_base64(file), [str(item) for item in unseen]]
    first = runtime.users.decode([0])[0]
    options: dict[str, Any] = {"k": NUM_ITEMS, "exclude_seen": False, "unseen_items": True}
    assert blank.evaluate(RANK_COLD, asked) == [
        as_text(runtime.recommend_for([], 7)),
        as_text(runtime.recommend_for(unseen, 7)),
        as_text(runtime.recommend_for([], **options)),
        as_text(runtime.recommend(first, **options)),
    ]


def test_a_mixture_and_a_filter_rank_alike_where_training_saw_nothing(ranks_alike):
    term = FilterTerm(EXPONENTS, Mixing(3.0, 0.01))
    ranks_alike(encode(replace(cold_model(), filter=term), Encoding("int8")))
    alone = replace(
        cold_model(), head=None, embedding=None, positions=None, filter=FilterTerm(EXPONENTS)
    )
    ranks_alike(encode(alone, Encoding()))


def test_a_file_that_does_not_say_what_is_popular_says_so_in_the_browser(blank: Page):
    file = encode(warm_model(), Encoding(seen=False))
    decode_file = blank.evaluate_handle(f"() => {DECODE}")
    with refused("does not say which items are popular"):
        blank.evaluate(RANK_TASTE, [decode_file, as_base64(file), []])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda cold: cold.pop("degrees"), "counts the takers"),
        (lambda cold: cold.update(users=26), "more than there are"),
        (lambda cold: cold.update(items=2), "do not add up"),
        (lambda cold: cold.update(degrees=False), "which items are popular"),
    ],
)
def test_a_forged_cold_start_is_refused(blank: Page, change: Callable[[Any], object], message: str):
    content = unpack(encode(cold_model(), Encoding(seen=False)))
    metadata = {k: v for k, v in content.metadata.items() if k not in ("crc32", "format")}
    change(metadata["cold"])
    with refused(message):
        blank.evaluate(DECODE, as_base64(pack(metadata, dict(content.tensors))))


def test_the_golden_file_of_what_training_never_saw_ranks_alike(ranks_alike):
    ranks_alike(COLD.read_bytes())


def test_someone_new_is_folded_into_als_alike(ranks_alike, blank: Page):
    model = replace(small_model(), folding=LeastSquares(alpha=3.0, regularization=0.5))
    file = encode(model, Encoding("fp16"))
    ranks_alike(file)
    # Another list than without: so the page does look at it.
    items = Runtime(model).items.values.tolist()[4:7]
    plain = Runtime(replace(model, folding=None)).recommend_for(items, 40)
    assert Runtime(decode(file)).recommend_for(items, 40) != plain


@pytest.mark.parametrize("change", [{"alpha": 0}, {"regularization": None}, {"alpha": 1e7}])
def test_a_forged_folding_is_refused(blank: Page, change: dict[str, Any]):
    model = replace(small_model(), folding=LeastSquares(alpha=3.0, regularization=0.5))
    content = unpack(encode(model, Encoding()))
    metadata = {k: v for k, v in content.metadata.items() if k not in ("crc32", "format")}
    metadata["folding"].update(change)
    with refused("(alpha|regularization) is"):
        blank.evaluate(DECODE, as_base64(pack(metadata, dict(content.tensors))))


def forged_codes(**changes: Any) -> bytes:
    """A file of one table with learned codes of 9 rows, which its header or tensor belies."""
    model = coded_model(books=1)
    content = unpack(encode(model, Encoding()))
    metadata, tensors = dict(content.metadata), dict(content.tensors)
    (table,) = metadata["embedding"]["tables"]
    if "tensor" in changes:
        del tensors["embedding.0.codes"]
        if (other := changes.pop("tensor")) is not None:
            tensors["embedding.0.codes"] = other
    table["rows"] = changes.pop("rows", table["rows"])
    table["index"] |= changes
    return pack(metadata, tensors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor": np.full(33, 255, np.uint8)}, "codes name a row that is not there"),
        ({"tensor": np.zeros(32, np.uint8)}, "codes has the wrong length"),
        ({"tensor": np.zeros(33, np.int8)}, "codes are I8"),
        ({"tensor": None}, "codes is missing"),
        ({"codes": "huffman"}, "codes are written as huffman, which is not known"),
        ({"codes": "deflated"}, "codes is damaged"),
        (
            {
                "codes": "deflated",
                "tensor": np.frombuffer(zlib.compress(bytes(10**6)), dtype=np.uint8),
            },
            "codes is damaged",
        ),
        ({"codes": "deflated", "size": 2**31 - 1, "rows": 2**31 - 1}, "larger tables than it can"),
        ({"size": 0}, "embedding.0.size is 0"),
        ({"size": 1}, "codes has the wrong length"),
        ({"size": 10}, "fewer rows than its index reaches"),
        ({"size": 2**31}, "embedding.0.size is 2147483648"),
        ({"kind": "modulo"}, "a part that is not known: embedding.0.codes"),
        ({"kind": "learned"}, "embedding.0.index is .learned., which is not known"),
    ],
)
def test_forged_codes_are_refused(blank: Page, changes: dict[str, Any], message: str):
    with refused(message):
        blank.evaluate(DECODE, as_base64(forged_codes(**changes)))


def test_a_section_that_the_page_does_not_know_is_skipped_where_the_file_allows_it(
    ranks_alike, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        declare_prices(patch)
        file = encode(priced(small_model(), np.ones(NUM_ITEMS, dtype=np.uint8)), Encoding())
    assert b"prices.cents" in file
    ranks_alike(file)


@pytest.mark.slow
def test_a_real_graph_ranks_alike_for_every_user(blank: Page, shared_data):
    splits = Splits.load(shared_data("lastfm"))
    rng = np.random.default_rng(0)
    entities = splits.num_users + splits.num_items
    model = ShippedModel(
        facts={},
        users=Ids.range(splits.num_users),
        items=Ids.range(splits.num_items),
        head="dot",
        embedding=ComposedEmbedding(
            (pruned(rng, Index("modulo", 500), 500), pruned(rng, Index("scaled", 500), 500))
        ),
        positions=rng.permutation(entities).astype(np.int32),
        layers=3,
        seen=Seen(splits.train.user_offsets, splits.train.item),
    )
    file = encode(model, Encoding(values="int4"))
    runtime = Runtime(decode(file))
    lists = runtime.recommend_many(range(splits.num_users), 20)
    found = blank.evaluate(RANK_USERS, [blank.evaluate_handle(f"() => {DECODE}"), as_base64(file)])
    assert json.loads(found) == [as_text(best) for best in lists]


# The graph filter: every number is the same to the bit, those of someone new too.


@pytest.mark.parametrize("q", [0, 0.03125, 0.6875, 1, 1.59375, 2])
def test_a_filter_ranks_alike_for_every_user(ranks_alike, q: float):
    model = small_filter()
    exponents = Exponents(q=q, p=2 - q, r=q / 2)
    ranks_alike(encode(replace(model, filter=FilterTerm(exponents)), Encoding()))


@pytest.mark.parametrize("beta", [0.25, 4.7, 256.0])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_mixture_ranks_alike_for_every_user(ranks_alike, backbone: str, beta: float):
    ranks_alike(encode(small_mixture(backbone, beta), Encoding(values="int8")))


@pytest.mark.parametrize(("strength", "times"), [(0.01, 1), (0.37, 2), (1024.0, 2)])
def test_a_sharpened_filter_ranks_alike_for_every_user(ranks_alike, strength: float, times: int):
    term = FilterTerm(EXPONENTS, sharpening=Sharpening(0.75, strength, times))
    ranks_alike(encode(replace(small_filter(), filter=term), Encoding()))


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_mixture_with_a_sharpened_filter_ranks_alike(ranks_alike, backbone: str):
    ranks_alike(encode(sharpened(small_mixture(backbone)), Encoding(values="int8")))


@pytest.mark.parametrize("values", ["int4", "fp32"])
@pytest.mark.parametrize("model", [small_sums_mixture(), sharpened(small_sums_mixture())])
def test_sums_beside_a_filter_rank_alike_for_every_user(
    blank: Page, ranks_alike, model: ShippedModel, values: str
):
    file = encode(model, Encoding(values=values))
    ranks_alike(file)
    runtime = Runtime(decode(file))
    liked = runtime.items.values[[3, 17, 30]].tolist()
    handle = blank.evaluate_handle(f"() => {DECODE}")
    found = blank.evaluate(RANK_TASTE, [handle, as_base64(file), list(map(str, liked))])
    assert found == as_text(runtime.recommend_for(liked, NUM_ITEMS))


GOLDEN_FILTERS = [FILTER, SHARP_FILTER, MIXTURE, SUMS_MIXTURE]


@pytest.mark.parametrize("path", GOLDEN_FILTERS, ids=lambda path: path.stem)
def test_the_golden_filters_rank_alike(blank: Page, path: Path):
    runtime, file = cerp.load(path), as_base64(path.read_bytes())
    found = blank.evaluate(RANK_USERS, [blank.evaluate_handle(f"() => {DECODE}"), file])
    lists = runtime.recommend_many(runtime.users.values.tolist(), 20)
    assert json.loads(found) == [as_text(best) for best in lists]


def test_someone_new_gets_the_same_from_a_filter_to_the_bit(blank: Page):
    file = encode(small_filter(), Encoding())
    runtime = Runtime(decode(file))
    liked = runtime.items.values[[3, 17, 30]].tolist()
    found = blank.evaluate(
        RANK_TASTE,
        [blank.evaluate_handle(f"() => {DECODE}"), as_base64(file), list(map(str, liked))],
    )
    assert found == as_text(runtime.recommend_for(liked, NUM_ITEMS))


def test_the_logarithm_is_the_same_to_the_bit(blank: Page):
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [2.0 ** rng.uniform(-60, 60, 2000), rng.uniform(0.5, 2, 2000), [1, 1e-12]]
    )
    found = blank.evaluate(LOGARITHMS, values.tolist())
    assert found == natural_log(values).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("sharpening", [None, SHARPENING])
def test_a_filter_on_a_real_graph_ranks_alike_for_every_user(
    blank: Page, shared_data, sharpening: Sharpening | None
):
    splits = Splits.load(shared_data("lastfm"))
    term = FilterTerm(Exponents(0.6875, 0.875, 0.3125), sharpening=sharpening)
    file = encode(ship_filter(term, splits, {}), Encoding())
    lists = Runtime(decode(file)).recommend_many(splits.users.values.tolist(), 20)
    found = blank.evaluate(RANK_USERS, [blank.evaluate_handle(f"() => {DECODE}"), as_base64(file)])
    assert json.loads(found) == [as_text(best) for best in lists]


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.pop("filter"),
        lambda meta: meta.update(backbone="lightgcn"),
        lambda meta: meta.update(backbone="filter+filter"),
        lambda meta: meta["filter"].update(q=65),
        lambda meta: meta["filter"].update(p=0.5),
        lambda meta: meta["filter"].update(beta=-1),
        lambda meta: meta["filter"].update(epsilon=0),
        lambda meta: meta["filter"].pop("beta"),
    ],
)
def test_a_forged_filter_is_refused_by_the_page(blank: Page, change: Callable[[Any], object]):
    content = unpack(MIXTURE.read_bytes())
    change(content.metadata)
    file = pack(content.metadata, content.tensors)
    with refused("not a usable model file"):
        blank.evaluate(DECODE, as_base64(file))


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.update(backbone="filter"),
        lambda meta: meta.update(backbone="sharp-filter+filter"),
        lambda meta: meta["filter"].pop("m"),
        lambda meta: meta["filter"].update(m=65),
        lambda meta: meta["filter"].update(strength=2000),
        lambda meta: meta["filter"].update(strength=None),
        lambda meta: meta["filter"].update(times=0),
        lambda meta: meta["filter"].update(times=3),
    ],
)
def test_a_forged_sharpening_is_refused_by_the_page(blank: Page, change: Callable[[Any], object]):
    content = unpack(SHARP_FILTER.read_bytes())
    change(content.metadata)
    with refused("not a usable model file"):
        blank.evaluate(DECODE, as_base64(pack(content.metadata, content.tensors)))


def test_the_page_shows_a_filter_and_recommends_by_it(page: Page):
    with live(small_filter()) as server:
        page.goto(server.url)
        page.get_by_text("a graph, and no embedding table at all").wait_for()
        assert "filter" in page.locator("#about").inner_text()
        assert page.get_by_text("Full table").count() == 0


# Item neighbours: a file without users, every number the same to the bit.


@pytest.mark.parametrize("share", [0.02, 0.2, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
def test_neighbours_rank_alike_for_every_taste(blank: Page, seed: int, share: float):
    file = encode(small_neighbours(seed, share), Encoding())
    runtime = Runtime(decode(file))
    rng = np.random.default_rng(seed)
    sizes = (1, 2, 7, 20, NUM_ITEMS)
    tastes = [rng.permutation(runtime.items.values)[:size].tolist() for size in sizes]
    found = blank.evaluate(
        RANK_TASTES,
        [
            blank.evaluate_handle(f"() => {DECODE}"),
            as_base64(file),
            [list(map(str, liked)) for liked in tastes],
        ],
    )
    assert found["tastes"] == [as_text(runtime.recommend_for(one, NUM_ITEMS)) for one in tastes]
    similar = [runtime.similar_items(item, NUM_ITEMS) for item in runtime.items.values.tolist()]
    assert found["similar"] == [as_text(best) for best in similar]
    assert found["users"] == []


def test_the_golden_neighbours_rank_alike(blank: Page):
    runtime, file = cerp.load(NEIGHBOURS), as_base64(NEIGHBOURS.read_bytes())
    tastes = [[10], [11], [12, 10], [10, 11, 12], [500]]
    handle = blank.evaluate_handle(f"() => {DECODE}")
    found = blank.evaluate(RANK_TASTES, [handle, file, [list(map(str, one)) for one in tastes]])
    assert found["tastes"] == [as_text(runtime.recommend_for(liked)) for liked in tastes]


@pytest.mark.parametrize("values", ["int4", "int8", "fp32"])
def test_sums_over_histories_rank_alike_for_every_taste(blank: Page, values: str):
    model = items_only(coded_model())
    rng = np.random.default_rng(0)
    popularity = rng.integers(1, 90, NUM_ITEMS).astype(np.uint8)
    sums = HistorySums(0.40625, popularity)
    file = encode(replace(model, tastes=None, cold=None, sums=sums), Encoding(values=values))
    runtime = Runtime(decode(file))
    tastes = [rng.permutation(runtime.items.values)[:size].tolist() for size in (1, 2, 7, 20)]
    handle = blank.evaluate_handle(f"() => {DECODE}")
    asked = [handle, as_base64(file), [list(map(str, liked)) for liked in tastes]]
    found = blank.evaluate(RANK_TASTES, asked)
    assert found["tastes"] == [as_text(runtime.recommend_for(one, NUM_ITEMS)) for one in tastes]
    similar = [runtime.similar_items(item, NUM_ITEMS) for item in runtime.items.values.tolist()]
    assert found["similar"] == [as_text(best) for best in similar]


def test_the_golden_sums_rank_alike(blank: Page):
    runtime, file = cerp.load(SUMS), as_base64(SUMS.read_bytes())
    tastes = [[10], [11], [12, 10], [10, 11, 12], [500]]
    handle = blank.evaluate_handle(f"() => {DECODE}")
    found = blank.evaluate(RANK_TASTES, [handle, file, [list(map(str, one)) for one in tastes]])
    assert found["tastes"] == [as_text(runtime.recommend_for(liked)) for liked in tastes]


@pytest.mark.parametrize("change", [change for change, _ in FORGED_SUMS])
def test_forged_sums_are_refused_by_the_page(blank: Page, change: Callable[..., object]):
    with refused("not a usable model file"):
        blank.evaluate(DECODE, as_base64(forged_sums(change)))


@pytest.mark.parametrize("change", [change for change, _ in FORGED_MIXTURES])
def test_forged_mixtures_of_sums_are_refused_by_the_page(
    blank: Page, change: Callable[..., object]
):
    with refused("not a usable model file"):
        blank.evaluate(DECODE, as_base64(forged_mixture(change)))


@pytest.mark.parametrize("change", [change for change, _ in FORGERIES])
def test_forged_neighbours_are_refused_by_the_page(blank: Page, change: Callable[..., object]):
    with refused("not a usable model file"):
        blank.evaluate(DECODE, as_base64(forged(change)))


def test_someone_new_gets_the_same_from_vectors_without_users(blank: Page):
    file = encode(items_only(coded_model()), Encoding(values="int8"))
    runtime = Runtime(decode(file))
    liked = runtime.items.values[[3, 17, 30]].tolist()
    handle = blank.evaluate_handle(f"() => {DECODE}")
    found = blank.evaluate(RANK_TASTE, [handle, as_base64(file), list(map(str, liked))])
    wanted = as_text(runtime.recommend_for(liked, NUM_ITEMS))
    assert [item for item, _ in found] == [item for item, _ in wanted]
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted], rel=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda meta, tensors: meta.pop("tastes"),
        lambda meta, tensors: meta["tastes"].update(columns=DIM - 1),
        lambda meta, tensors: tensors["tastes.variance"].fill(-1),
        lambda meta, tensors: tensors["tastes.mean"].fill(np.inf),
        lambda meta, tensors: tensors.update({"tastes.mean": tensors["tastes.mean"][None]}),
        lambda meta, _: meta["embedding"].update(combine="concat"),
        lambda meta, tensors: meta.update(tastes=None, users=0),
    ],
)
def test_forged_tastes_are_refused_by_the_page(blank: Page, change: Callable[..., object]):
    content = unpack(encode(items_only(coded_model()), Encoding()))
    tensors = {name: tensor.copy() for name, tensor in content.tensors.items()}
    change(content.metadata, tensors)
    with refused("not a usable model file"):
        blank.evaluate(DECODE, as_base64(pack(content.metadata, tensors)))


@pytest.mark.parametrize("in_browser", [False, True])
def test_the_page_of_a_file_without_users_asks_for_items(page: Page, in_browser: bool):
    model = small_neighbours()
    with live(model) as server:
        page.goto(server.url)
        expect(page.get_by_label("A known user")).to_be_disabled()
        expect(page.get_by_label("My own taste")).to_be_checked()
        expect(page.locator("#user-panel")).to_be_hidden()
        page.get_by_text("weights between items, and no embedding table at all").wait_for()
        assert page.locator("#about").inner_text() == "model.cerp · neighbours · 40 items"
        if in_browser:
            page.get_by_label("Compute in this browser").check()
            page.get_by_text("ready in").wait_for()
        page.get_by_role("combobox", name="Items I like").press_sequentially("Title 09")
        page.get_by_role("option").first.click()
        where = "in this browser" if in_browser else "by the server"
        told = f"10 items for this taste, computed {where}"
        expect(page.get_by_role("status")).to_contain_text(told)
        best = Runtime(model).recommend_for(model.items.decode([9]), 10)
        assert shown(page) == [str(item) for item, _ in best]


RNG = np.random.default_rng(1)
HASHED = Index("hashed", size=11, factor=1_234_567, offset=2**31 - 2)
FIRST_FIVE = np.tile(np.arange(DIM) < 5, (ENTITIES, 1))
EMBEDDINGS = {
    "dense": ComposedEmbedding((pruned(RNG, Index("identity"), ENTITIES, kept=1.0),)),
    "prefix": ComposedEmbedding(
        (Table(Index("identity"), FIRST_FIVE * normal(RNG, ENTITIES, DIM), FIRST_FIVE),)
    ),
    "very sparse": ComposedEmbedding((pruned(RNG, Index("identity"), ENTITIES, kept=0.02),)),
    "product of hashes": ComposedEmbedding(
        (pruned(RNG, HASHED, 11), pruned(RNG, Index("quotient", 8), 9), pruned(RNG, HASHED, 11)),
        "product",
    ),
    "joined": ComposedEmbedding(
        (pruned(RNG, Index("modulo", 7), 7, 5), pruned(RNG, Index("quotient", 7), 10, 3)), "concat"
    ),
}


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_every_way_to_put_vectors_together_is_understood(ranks_alike, kind: str):
    model = replace(small_model(), embedding=EMBEDDINGS[kind])
    ranks_alike(encode(model, Encoding(values="int8")))


def test_equal_scores_rank_alike(ranks_alike):
    ties = ComposedEmbedding((Table(Index("modulo", 3), np.ones((3, DIM), np.float32)),))
    ranks_alike(encode(replace(small_model(), embedding=ties, seen=None), Encoding()))


@pytest.mark.parametrize(
    "ids",
    [
        Ids.range(NUM_USERS),
        Ids(np.arange(NUM_USERS) * 2**55 + 2**53 + 1),
        Ids([f"né-{number} \N{SLICE OF PIZZA}\n" for number in range(NUM_USERS)]),
    ],
    ids=["range", "beyond doubles", "strings"],
)
def test_ids_of_every_kind_come_back(ranks_alike, ids: Ids):
    ranks_alike(encode(replace(small_model(), users=ids, positions=None), Encoding()))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file[:5], "shorter than 8 bytes"),
        (lambda file: b"<html></html>" * 20, "no .cerp file at all"),
        (lambda file: file[:-1], "checksum is wrong"),
        (lambda file: file[:-9] + bytes([file[-9] ^ 1]) + file[-8:], "checksum is wrong"),
    ],
    ids=["empty", "something else", "cut off", "flipped bit"],
)
def test_a_damaged_file_is_refused(blank: Page, damage: Callable[[bytes], bytes], message: str):
    damaged = damage(encode(small_model(), Encoding()))
    with refused(message):
        blank.evaluate(DECODE, as_base64(damaged))


def test_a_file_of_a_later_format_is_refused(blank: Page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cerp.artifact.container.FORMAT", 2)
    later = encode(small_model(), Encoding())
    with refused("its format is 2, this page reads 1"):
        blank.evaluate(DECODE, as_base64(later))


@pytest.mark.parametrize(
    ("dim", "tables", "message"), [(500, 1, "takes about 6291"), (1, 2000, "takes about 4194")]
)
def test_a_small_file_that_takes_too_much_is_refused(
    blank: Page, dim: int, tables: int, message: str
):
    one = Table(Index("modulo", size=1), np.ones((1, dim), dtype=np.float32))
    endless = ShippedModel(
        facts={},
        users=Ids.range(1),
        items=Ids.range(2**20 - 1),
        head="dot",
        embedding=ComposedEmbedding((one,) * tables),
    )
    with refused(message):
        blank.evaluate(DECODE, as_base64(encode(endless, Encoding())))


def test_a_file_for_lookups_is_refused_in_plain_words(blank: Page):
    with refused("it holds vectors for lookups and no recommender"):
        blank.evaluate(DECODE, as_base64(GOLDEN_LOOKUP.read_bytes()))


def test_a_header_that_lacks_something_is_refused(blank: Page):
    described = {"users": 1, "items": 1, "backbone": "mf", "layers": 0}
    with refused("its order is missing"):
        blank.evaluate(DECODE, as_base64(pack(described, {})))


def test_a_header_that_claims_more_than_the_file_holds_is_refused(blank: Page):
    with refused("more users and items than it can hold"):
        blank.evaluate(DECODE, as_base64(pack({"users": 10**9, "items": 1}, {})))


def test_the_page_says_why_a_file_cannot_be_used(page: Page):
    with live(small_model(), b"no model") as server:
        page.goto(server.url)
        shown(page)
        page.get_by_role("switch").click()
        expect(page.get_by_role("alert")).to_contain_text("This is not a usable model file")
        expect(page.get_by_role("switch")).not_to_be_checked()


def shown(page: Page) -> list[str]:
    """Names of the recommended items, once they are there."""
    names = page.locator("#recommendations .name")
    expect(names.first).to_be_visible()
    return [name.split(" ")[-1] for name in names.all_inner_texts()]


def ask_for(page: Page, user: str) -> None:
    page.get_by_role("combobox", name="User id").fill(user)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status")).to_contain_text(f"for user {user},")


def best(model: ShippedModel, user: int) -> list[str]:
    return [str(item) for item, _ in Runtime(decode(encode(model, Encoding()))).recommend(user)]


def test_a_typed_user_gets_recommendations_and_a_history(page: Page, url: str):
    model = small_model("lightgcn")
    page.goto(url)
    ask_for(page, "107")
    assert shown(page) == best(model, 107)
    history = page.get_by_role("region", name="Already seen").get_by_role("listitem")
    expect(history).to_have_count(int(np.diff(model.seen.offsets)[7]))


def test_an_unknown_user_is_named(page: Page, url: str):
    page.goto(url)
    page.get_by_role("combobox", name="User id").fill("nobody")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown user 'nobody'")


def test_a_field_that_someone_is_in_is_left_to_them(page: Page, url: str):
    held: list[Route] = []
    page.route("**/users?*", lambda route: held.append(route))
    with page.expect_request("**/users?*"):
        page.goto(url)
    field = page.get_by_role("combobox", name="User id")
    field.focus()
    with page.expect_response("**/users?*"):
        held[0].continue_()
    page.wait_for_timeout(200)  # for the page to do with it what it may
    page.keyboard.type("nobody")
    expect(field).to_have_value("nobody")


def test_the_keyboard_suffices(page: Page, url: str):
    page.goto(url)
    shown(page)
    page.keyboard.press("Tab")  # the link to the results
    page.keyboard.press("Tab")  # the mode
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.type("title 05")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("10 items for this taste")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # on the chip: takes it away again
    expect(page.get_by_role("status")).to_contain_text("10 items that are popular")


@pytest.mark.parametrize("place", ["server", "browser"])
def test_a_taste_gets_what_python_gives(page: Page, url: str, place: str):
    runtime = Runtime(decode(encode(small_model("lightgcn"), Encoding())))
    liked = runtime.items.decode([5, 11])
    page.goto(url)
    if place == "browser":
        compute_here(page)
    page.get_by_text("My own taste").click()
    for title in ("Title 05", "Title 11"):
        page.get_by_role("combobox", name="Items I like").press_sequentially(title)
        page.get_by_role("option").first.click()
    expect(page.get_by_role("status")).to_contain_text("10 items for this taste")
    expect(page.get_by_role("button", name="Remove")).to_have_count(2)
    wanted = [str(item) for item, _ in runtime.recommend_for(liked)]
    # The list of the first title alone has as many: wait for that of both.
    expect(page.locator("#recommendations .name")).to_contain_text(wanted)
    assert shown(page) == wanted


def compute_here(page: Page) -> None:
    shown(page)
    page.get_by_role("switch", name="Compute in this browser").check()
    expect(page.get_by_role("status")).to_contain_text("computed in this browser")


def test_the_switch_shows_bytes_and_times_and_the_same_list(page: Page, url: str):
    page.goto(url)
    ask_for(page, "112")
    by_server = shown(page)
    compute_here(page)
    assert shown(page) == by_server
    row = page.get_by_role("row", name="This browser")
    size = len(encode(small_model("lightgcn"), Encoding()))
    expect(row).to_contain_text(f"{size / 1000:.2f} KB: fetched in")
    expect(row).to_contain_text("ms, nothing sent")


def test_once_loaded_it_works_offline_also_after_a_reload(page: Page, context: BrowserContext):
    model = small_model("lightgcn")
    with live(model) as server:
        page.goto(server.url)
        page.evaluate("navigator.serviceWorker.ready")
        compute_here(page)
    page.reload()
    for user in ("101", "124"):
        ask_for(page, user)
        assert shown(page) == best(model, int(user))


def test_without_the_model_a_lost_connection_is_explained(page: Page, context: BrowserContext):
    with live(small_model()) as server:
        page.goto(server.url)
        shown(page)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")


def test_a_title_is_text_and_never_markup(page: Page):
    titles = [f"<img src=x onerror='document.title=1'> {code}" for code in range(NUM_ITEMS)]
    with live(replace(small_model(), titles=titles)) as server:
        page.goto(server.url)
        shown(page)
        compute_here(page)
        expect(page.get_by_text("<img src=x").first).to_be_visible()
        assert page.locator("main img").count() == 0
        assert page.title() == "model.cerp · cerp"


def test_a_model_that_takes_no_taste_does_not_offer_it(page: Page):
    with live(small_model("mlp")) as server:
        page.goto(server.url)
        shown(page)
        expect(page.get_by_label("My own taste")).to_be_disabled()


def test_no_width_needs_sideways_scrolling(page: Page, url: str):
    page.goto(url)
    compute_here(page)
    for width in (320, 390, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width


CONTRAST = """() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const { backgroundColor } = getComputedStyle(element);
      if (!backgroundColor.endsWith(", 0)")) return backgroundColor;
    }
  };
  const texts = [...document.querySelectorAll("body *")].filter((element) => element.offsetParent
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return Math.min(...texts.map((element) => {
    const [a, b] = [getComputedStyle(element).color, ground(element)].map(light);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
}"""


def test_all_text_stands_out_from_its_ground_in_light_and_dark(page: Page, url: str):
    page.goto(url)
    compute_here(page)
    grounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert page.evaluate(CONTRAST) >= 4.5  # WCAG AA
    assert grounds == ["rgb(246, 245, 241)", "rgb(20, 23, 26)"]


def test_the_example_for_a_page_of_ones_own_works(browser: Browser, url: str):
    text = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    (script,) = re.findall(r'<script type="module">\n(.*?)</script>', text, re.DOTALL)
    page = browser.new_page(bypass_csp=True)  # it is put into a page of the server
    page.goto(f"{url}health")
    page.add_script_tag(content=script.replace('"42"', '"103"'), type="module")
    expect(page.locator("p")).to_have_count(5)
    page.close()


def test_the_service_worker_keeps_every_file_of_the_page():
    text = (PAGE_FILES / "service-worker.js").read_text(encoding="utf-8")
    own = {path.name for path in PAGE_FILES.iterdir()} - {"index.html", "service-worker.js"}
    assert {name for name in own if f'"{name}"' not in text} == set()


NEAREST = "#nearest .name"
DROP = """async ([name, content]) => {
  const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([bytes], name));
  const options = { dataTransfer, bubbles: true, cancelable: true };
  document.body.dispatchEvent(new DragEvent("drop", options));
}"""


def drop(page: Page, path: Path) -> None:
    page.evaluate(DROP, [path.name, as_base64(path.read_bytes())])


def test_a_file_of_vectors_that_is_dropped_shows_the_nearest_ids(page: Page, url: str):
    page.goto(url)
    shown(page)
    drop(page, GOLDEN_LOOKUP)
    expect(page.get_by_text("lookup.cerp: 3 vectors of 3 numbers in")).to_be_visible()
    expect(page.get_by_role("heading", name="Recommend for")).to_be_hidden()
    expect(page.get_by_label("Field")).to_be_hidden()
    field = page.get_by_role("combobox", name="Id")
    field.fill("thr")
    field.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("2 nearest to three")
    found = cerp.load(GOLDEN_LOOKUP).nearest("three")
    assert page.locator(NEAREST).all_inner_texts() == [near.id for near in found]
    assert page.locator("#nearest .score").all_inner_texts() == [
        f"{near.similarity:.4f}" for near in found
    ]
    page.get_by_role("button", name="two").click()
    expect(field).to_have_value("two")
    page.get_by_text("The vector itself").click()
    expect(page.locator("#vector-numbers")).to_have_text("0.00000 0.00000 137.000")
    page.get_by_role("button", name="Close the file").click()
    expect(page.get_by_role("heading", name="Recommend for")).to_be_visible()


def test_the_fields_of_a_collection_can_be_chosen(page: Page, url: str):
    page.goto(url)
    shown(page)
    page.get_by_label("Choose a file of vectors").set_input_files(GOLDEN_FIELDS)
    fields = page.get_by_label("Field")
    expect(fields.locator("option")).to_have_text(
        ["user (2 ids)", "country (2 ids)", "item (3 ids)"]
    )
    expect(page.locator(NEAREST)).to_have_text(["500"])
    fields.select_option("country")
    expect(page.locator(NEAREST)).to_have_text(["ch"])
    field = page.get_by_role("combobox", name="Id")
    field.fill("500")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("There is no id “500”")
    for width in (320, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CONTRAST) >= 4.5


def test_a_recommender_that_is_dropped_is_named_as_one(page: Page, url: str):
    page.goto(url)
    shown(page)
    drop(page, GOLDEN_CODED)
    expect(page.get_by_role("alert")).to_contain_text("This file recommends: `cerp serve` shows it")
    drop(page, Path(__file__))
    expect(page.get_by_role("alert")).to_contain_text("not a usable model file")
    expect(page.get_by_role("heading", name="Recommend for")).to_be_visible()


def test_enter_takes_the_first_suggestion_or_says_why_not(page: Page, url: str):
    page.goto(url)
    shown(page)
    page.get_by_text("My own taste").click()
    field = page.get_by_role("combobox", name="Items I like")
    field.fill("title 1")
    field.press("Enter")
    expect(page.get_by_role("button", name="Remove Title 10")).to_be_visible()
    field.fill("no such thing")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("There is no item “no such thing”")


def test_a_taste_starts_with_examples_and_lists_lead_to_similar_items(page: Page, url: str):
    runtime = Runtime(decode(encode(small_model("lightgcn"), Encoding())))
    page.goto(url)
    shown(page)
    page.get_by_text("My own taste").click()
    examples = page.locator("#examples button")
    expect(examples).to_have_count(6)
    examples.first.click()
    expect(page.get_by_role("status")).to_contain_text("10 items for this taste")
    page.get_by_label("Items", exact=True).fill("4")
    page.get_by_label("Items", exact=True).press("Tab")
    expect(page.get_by_role("status")).to_contain_text("4 items for this taste")
    first = shown(page)[0]
    page.locator("#recommendations .similar").first.click()
    expect(page.get_by_role("status")).to_contain_text("4 items like Title")
    wanted = [str(place.item) for place in runtime.similar_items(int(first), 4)]
    assert shown(page) == wanted


def test_bars_show_the_differences_within_a_list(page: Page, url: str):
    page.goto(url)
    shown(page)
    bars = page.locator("#recommendations meter").evaluate_all(
        "all => all.map(({ min, max, value }) => (value - min) / (max - min))"
    )
    assert bars[0] == pytest.approx(1)
    assert bars[-1] == pytest.approx(0.15 / 1.15, abs=0.01)
