// Decodes a .cerp file into plain typed arrays, as docs/format.md describes it; checks what it reads.

import { addBitPlanes, floats, inflate, numberList, signedBytes, signedNibbles } from "./codecs.js";
import { readContainer } from "./container.js";
import { FileError, check, choice, count, decimal, list, object, optionalObject } from "./fields.js";
import { isBroken, utf8 } from "./json.js";
import { checkLookup, decodeFields, decodeProjection } from "./lookup-parts.js";
import { decodeNeighbours } from "./neighbours.js";
import { popularityLevel } from "./folding.js";
import { lastRow } from "./vectors.js";

const LARGEST_FACTOR = 2 ** 21 - 1;
const LARGEST_PLACE = 2 ** 31 - 2; // Of the hash, a prime above it.
const LARGEST_WIDTH = 2 ** 16 - 1;
const MOST_BOOKS = 2 ** 16 - 1;

/**
 * @param {ArrayBuffer} file
 * @returns {Promise<object>} head (null: no vectors), layers, users and items (ids as text), titles, positions
 *   by code, tables or propagated vectors (usersInTables: of how many users), seen (offsets, items), cold (users, items, degrees: what training
 *   never saw, and how many took each item), filter (exponents, beta, epsilon), folding (alpha, regularization),
 *   weights, neighbours (offsets, targets, values, levels), sums (exponent, levels), tastes (mean, variance);
 *   isLookup, and of such files projection (inputs, outputs, scale, matrix, mean) and fields (name, ids, table)
 */
export async function decodeFile(file) {
  try {
    return await decode(new Uint8Array(file));
  } catch (error) {
    if (error instanceof FileError) throw error;
    throw new FileError(`its header contradicts itself (${error.message})`); // A field that is missing, say.
  }
}

async function decode(file) {
  const { metadata, tensors } = readContainer(file);
  const users = count(metadata.users, "users");
  const items = count(metadata.items, "items");
  const most = Math.min(2 ** 31 - 1, 2 ** 20 + 64 * file.length);
  check(users + items <= most, "it claims more users and items than it can hold");
  const order = choice(metadata.order, "its order", ["codes", "lehmer"]);
  const positions = order === "lehmer" ? lehmer(tensors.array("order", "U8"), users + items) : null;
  object(metadata.facts, "its origin");
  const about = {
    ids: object(metadata.ids, "its ids"),
    vectors: optionalObject(metadata.embedding, "its embedding"),
    seen: optionalObject(metadata.seen, "its graph"),
    titles: optionalObject(metadata.titles, "its titles"),
    filter: optionalObject(metadata.filter, "its filter"),
    neighbours: optionalObject(metadata.neighbours, "its neighbours"),
    sums: optionalObject(metadata.sums, "its sums"),
    tastes: optionalObject(metadata.tastes, "its tastes"),
    cold: optionalObject(metadata.cold, "its cold start"),
    folding: optionalObject(metadata.folding, "its folding"),
    projection: optionalObject(metadata.projection, "its projection"),
    fields: optionalObject(metadata.fields, "its fields"),
  };
  const usersInTables = about.sums ? 0 : users; // Else a user is the sum of their items.
  const known = about.seen && (await seen(tensors, about.seen, users, items, positions));
  const model = {
    ...scoring(metadata, about),
    numUsers: users,
    usersInTables,
    numItems: items,
    positions,
    ...(about.vectors && (await embedding(tensors, about.vectors, usersInTables, items))),
    filter: filterTerm(about.vectors, about.filter),
    folding: folding(metadata, about.folding),
    weights: weights(tensors),
    seen: known,
    neighbours: about.neighbours && (await decodeNeighbours(tensors, about.neighbours, items, seen)),
    sums: about.sums && (await sumsOf(tensors, about.sums, items, known)),
    tastes: about.tastes && tastesOf(tensors, about.tastes),
    cold: about.cold && (await coldStart(tensors, about.cold, users, items)),
    users: await ids(tensors, "users.ids", object(about.ids.users, "ids of users"), users),
    items: await ids(tensors, "items.ids", object(about.ids.items, "ids of items"), items),
    titles: about.titles && (await strings(tensors, "titles", about.titles.bytes, items)),
    projection: about.projection && decodeProjection(tensors, about.projection),
    fields: about.fields && (await decodeFields(tensors, about.fields, items, { ids, dense: denseTable, codecs: VALUES })),
  };
  const optional = list(metadata.optional ?? [], "what is optional");
  check(optional.every((word) => typeof word === "string"), "what is optional are no words");
  for (const name of [...tensors.keys()]) if (optional.includes(name.split(".")[0])) tensors.delete(name);
  check(tensors.size === 0, `it has a part that is not known: ${[...tensors.keys()][0]}`);
  check(items > 0, "it has no items");
  if (model.isLookup) {
    check(model.tables, "it has no tables to look vectors up in");
    checkLookup(model, widthOf(model), about.ids.items.kind);
    return model;
  }
  check(!model.projection && !model.fields, "it has parts that only lookups need");
  check(!model.layers || model.propagated || model.seen, "it lacks the graph that its vectors come from");
  check((model.head === null) === !about.vectors, "its vectors do not fit its way to score");
  check(!model.propagated || model.head === "dot", "its vectors do not fit its way to score");
  const alone = !model.filter && !model.seen && !positions && users === 0;
  const isOfItems = model.neighbours || model.tastes || (model.sums && !model.filter);
  check(isOfItems ? alone : users > 0, "its users do not fit its way to score");
  const besideSums = positions || model.propagated || model.neighbours || model.tastes || model.folding || model.cold;
  check(!model.sums || !besideSums, "its sums do not fit its way to score");
  check(!model.tastes || (model.head === "dot" && !model.layers), "its tastes do not fit its way to score");
  check(!model.tastes || model.tastes.mean.length === widthOf(model), "its tastes do not fit its vectors");
  check(!model.filter || model.seen, "it lacks the graph that its filter works on");
  if (model.head === "tower") checkTower(model.weights, widthOf(model));
  else check(model.weights.length === 0, "it has a tower that nothing needs");
  check(!model.cold || !model.seen, "it says twice what training never saw");
  if (model.seen) model.cold = coldStartOf(model.seen, items);
  const { levels } = model.neighbours ?? model.sums ?? {};
  if (levels && !model.seen) model.cold = coldStartOfLevels(levels);
  return model;
}

/** How vectors become a score, and the layers of propagation before it: the one place that knows the words. */
function scoring({ backbone, layers }, { filter, neighbours, sums }) {
  const vectors = { mf: ["dot", false], mlp: ["tower", false], lightgcn: ["dot", true] };
  const alone = Object.fromEntries(["filter", "sharp-filter", "neighbours", "lookup"].map((word) => [word, [null, false]]));
  const ways = { ...vectors, ...alone, sums: ["dot", false] };
  check(typeof backbone === "string", "its way to score is not named");
  const [, word, added] = /^([\w-]+?)(?:\+((?:sharp-)?filter))?$/.exec(backbone) ?? [];
  const isKnown = Object.hasOwn(ways, word) && (!added || word === "sums" || Object.hasOwn(vectors, word));
  check(isKnown, `its way to score ${backbone} is not known`);
  check((word === "neighbours") === Boolean(neighbours), "its neighbours do not fit its way to score");
  check((word === "sums") === Boolean(sums), "its sums do not fit its way to score");
  const [head, propagates] = ways[word];
  const filtered = added ?? (word.endsWith("filter") ? word : null);
  check(Boolean(filtered) === Boolean(filter), "its filter does not fit its way to score");
  check((filtered === "sharp-filter") === ((filter?.m ?? null) !== null), "its filter is not as sharp as its way to score says");
  check(count(layers, "layers") <= 64 && layers > 0 === propagates, "its layers do not fit its way to score");
  return { head, layers, isLookup: word === "lookup" };
}

/** The filter's exponents, in multiples of 1/32, how it is sharpened, and in a mixture beta and epsilon; null: none. */
function filterTerm(vectors, filter) {
  if (!filter) return null;
  const [q, p, r] = ["q", "p", "r"].map((name) => count(filter[name], `exponent ${name}`, { largest: 64 }));
  const isMixed = (filter.beta ?? null) !== null;
  check(isMixed === Boolean(vectors), "its filter does not fit its vectors");
  const sharpening = sharpeningOf(filter);
  if (!isMixed) return { q, p, r, sharpening };
  const [beta, epsilon] = [decimal(filter.beta, "beta", 0, 1e6), decimal(filter.epsilon, "epsilon", 1e-12, 1)];
  return { q, p, r, sharpening, beta, epsilon };
}

/** An exponent in multiples of 1/32, how much is taken away, and how often; null: the plain filter. */
function sharpeningOf({ m, strength, times }) {
  if ((m ?? null) === null) return null;
  const told = count(m, "exponent m", { largest: 64 });
  const often = count(times, "times", { largest: 2 });
  check(often >= 1, "its filter is sharpened 0 times");
  return { m: told, strength: decimal(strength, "strength", 0, 1024), times: often };
}

/**
 * How much each item counts in the sum over a history: an exponent in multiples of 1/32, levels of popularity.
 * Those are what the graph says where there is one.
 */
async function sumsOf(tensors, { exponent }, items, known) {
  const told = count(exponent, "exponent", { largest: 64 });
  if (known) return { exponent: told, levels: Uint8Array.from(coldStartOf(known, items).degrees, popularityLevel) };
  return { exponent: told, levels: await inflate(tensors, "sums.popularity", items) };
}

/** Mean and variances of users who are not in the file, from which someone new is folded in. */
function tastesOf(tensors, { columns }) {
  const length = count(columns, "tastes");
  check(length > 0, "its tastes are of no length");
  const [mean, variance] = ["mean", "variance"].map((name) => floats(tensors.array(`tastes.${name}`, "F32", length)));
  check(variance.every((value) => value >= 0), "its tastes are not what they should be");
  return { mean, variance };
}

/** α and λ of ALS, where someone new is folded in by its least squares; null: as anywhere. */
function folding({ layers, backbone }, told) {
  if (!told) return null;
  check(/^mf/.test(backbone) && layers === 0, "its folding does not fit its way to score");
  const [alpha, regularization] = ["alpha", "regularization"].map((name) => decimal(told[name], name, 1e-6, 1e6));
  return { alpha, regularization };
}

/** Tables with what puts them together, or vectors that are propagated already. */
async function embedding(tensors, about, users, items) {
  if (about.propagated === true) return propagated(tensors, about, users, items);
  const tables = list(about.tables, "its tables").map((table, number) => described(table, `embedding.${number}`, users + items));
  const combine = choice(about.combine, "what joins its tables", ["sum", "product", "concat"]);
  check(tables.length > 0, "it has no table");
  const isEven = tables.every((table) => table.columns === tables[0].columns);
  check(combine === "concat" || isEven, "its tables differ in width");
  const cells = tables.reduce((sum, table) => sum + table.rows * table.columns, 0);
  let bytes = 0;
  for (const [name, tensor] of tensors) if (name.startsWith("embedding.")) bytes += tensor.bytes.length;
  check(cells <= 2 ** 22 + 256 * bytes, "it claims larger tables than it can fill");
  for (const table of tables) {
    if (table.index.kind === "coded") table.codes = await codesOfTable(tensors, table.name, table, (users + items) * table.books);
    table.weight = await weightsOfTable(tensors, table.name, table);
  }
  return { combine, tables: tables.flatMap(apart) };
}

/** The books of a table that lie above each other. */
function apart(table) {
  if (table.books === 1) return [table];
  const part = (all, book) => all.subarray((book * all.length) / table.books, ((book + 1) * all.length) / table.books);
  return Array.from({ length: table.books }, (_, book) => ({
    ...table, weight: part(table.weight, book), codes: part(table.codes, book),
  }));
}

/** Vectors that are propagated already: a row for every user and item. */
async function propagated(tensors, about, users, items) {
  const columns = count(about.columns, "columns", { smallest: 1 });
  const values = choice(about.values, "what its values are", VALUES);
  const dense = (name, rows) => denseTable(tensors, name, rows, columns, values);
  return { propagated: { columns, users: await dense("propagated.users", users), items: await dense("propagated.items", items) } };
}

const denseTable = (tensors, name, rows, columns, values) =>
  weightsOfTable(tensors, name, { rows, columns, values, stored: rows * columns, positions: "dense" });

const VALUES = ["fp32", "fp16", "int8", "int4"];
const KINDS = ["identity", "modulo", "quotient", "scaled", "hashed", "coded"];

/** A table as the metadata has it, checked: every entity has one of its rows. */
function described(entry, name, length) {
  const { rows, columns, stored, values, positions, index: written, books: told } = object(entry, name);
  const books = (told ?? null) === null ? 1 : count(told, `${name}.books`, { smallest: 2, largest: MOST_BOOKS });
  count(rows, `${name}.rows`);
  count(columns, `${name}.columns`, { smallest: 1, largest: LARGEST_WIDTH });
  const { kind, size, factor, offset, codes: codec } = object(written, `${name}.index`);
  const index = {
    kind: choice(kind, `${name}.index`, KINDS),
    size: count(size, `${name}.size`, { smallest: kind === "identity" ? 0 : 1 }),
    factor: count(factor, `${name}.factor`, { largest: LARGEST_FACTOR }),
    offset: count(offset, `${name}.offset`, { largest: LARGEST_PLACE }),
    codes: codec,
  };
  choice(values, `${name}.values`, VALUES);
  choice(positions, `${name}.positions`, ["dense", "prefix", "bitmap", "gaps"]);
  check(lastRow(index, length) < rows, `${name} has fewer rows than its index reaches`);
  check(books === 1 || (kind === "coded" && size >= 2), `${name} has several books, and no codes`);
  return { name, rows: books * rows, columns, stored, values, positions, index, books, codes: null };
}

/** The row of every position in a table of learned codes; null: the only row there is. */
async function codesOfTable(tensors, name, { index: { size, codes: codec } }, length) {
  const width = 32 - Math.clz32(size - 1);
  const bytes = Math.ceil((length * width) / 8);
  let packed;
  if (codec === "deflated") packed = { bytes: await inflate(tensors, `${name}.codes`, bytes) };
  else if (codec === "planes") packed = tensors.array(`${name}.codes`, "U8", bytes);
  else check(false, `${name}.codes are written as ${codec}, which is not known`);
  if (width === 0) {
    check(packed.bytes.length === 0, `the part ${name}.codes has the wrong length`);
    return null; // Nothing is stored, so nothing is held: a header alone must not claim memory.
  }
  const codes = new Int32Array(length);
  addBitPlanes(`${name}.codes`, packed, new Uint8Array(length).fill(width), codes, (exponent) => 2 ** exponent);
  check(codes.every((code) => code < size), `${name}.codes name a row that is not there`);
  return codes;
}

async function weightsOfTable(tensors, name, { rows, columns, stored, positions, values: codec }) {
  const cells = rows * columns;
  check(count(stored, name) <= cells, `${name} stores more values than it has`);
  const places = await storedCells(tensors, `${name}.positions`, positions, rows, columns, stored);
  const scales = codec.startsWith("int") ? floats(tensors.array(`${name}.scales`, "F16", rows)) : null;
  check(!scales || scales.every((scale) => scale >= 0), `${name} has a negative scale`);
  const numbers = storedValues(tensors, `${name}.values`, codec, stored);
  const weight = new Float32Array(cells);
  for (let i = 0; i < stored; i++) {
    const cell = places ? places[i] : i;
    weight[cell] = scales ? scales[Math.floor(cell / columns)] * numbers[i] : numbers[i];
  }
  return weight;
}

function storedValues(tensors, name, codec, stored) {
  switch (codec) {
    case "fp32": return floats(tensors.array(name, "F32", stored));
    case "fp16": return floats(tensors.array(name, "F16", stored));
    case "int8": return signedBytes(tensors.array(name, "I8", stored));
    default: return signedNibbles(tensors.array(name, "U8", Math.ceil(stored / 2)), stored);
  }
}

/** Cells that hold the stored values, ascending; null: all. */
async function storedCells(tensors, name, codec, rows, columns, stored) {
  if (codec === "dense") {
    check(stored === rows * columns, `${name} should be complete`);
    return null;
  }
  const cells = new Float64Array(stored);
  let at = 0;
  const put = (cell) => {
    check(at < stored && cell < rows * columns, `${name} points outside its table`);
    cells[at++] = cell;
  };
  if (codec === "prefix") {
    const lengths = await numberList(tensors, `${name}.lengths`, rows);
    lengths.forEach((length, row) => {
      check(length <= columns, `${name} points outside its table`);
      for (let column = 0; column < length; column++) put(row * columns + column);
    });
  } else if (codec === "bitmap") {
    const bits = await inflate(tensors, `${name}.bitmap`, Math.ceil((rows * columns) / 8));
    for (let cell = 0; cell < rows * columns; cell++) if ((bits[cell >> 3] >> (cell & 7)) & 1) put(cell);
  } else if (codec === "gaps") {
    let cell = -1;
    for (const gap of await numberList(tensors, `${name}.gaps`, stored)) put((cell += gap + 1));
  } else check(false, `${name} are written as ${codec}, which is not known`);
  check(at === stored, `${name} are fewer than the values`);
  return cells;
}

/** Positions by code: the c(i)-th free one, with the free ones counted in a Fenwick tree. */
function lehmer(tensor, length) {
  const widths = Uint8Array.from({ length }, (_, i) => 32 - Math.clz32(length - i - 1));
  const ranks = new Float64Array(length);
  addBitPlanes("order", tensor, widths, ranks, (exponent) => 2 ** exponent);
  const free = Int32Array.from({ length: length + 1 }, (_, i) => i & -i);
  const top = 2 ** (31 - Math.clz32(length));
  return Int32Array.from(ranks, (rank, i) => {
    check(rank < length - i, "its order is no order");
    let position = 0;
    for (let step = top; step > 0; step >>= 1) {
      if (position + step <= length && free[position + step] <= rank) {
        position += step;
        rank -= free[position];
      }
    }
    for (let node = position + 1; node <= length; node += node & -node) free[node] -= 1;
    return position;
  });
}

/** Training interactions by code: `items` of user u from offsets[u] to offsets[u + 1], ascending. */
async function seen(tensors, { edges }, users, items, positions, name = "seen") {
  count(edges, "interactions");
  const counts = await numberList(tensors, `${name}.counts`, users);
  const gaps = await numberList(tensors, `${name}.gaps`, edges);
  const order = positions ?? Int32Array.from({ length: users + items }, (_, code) => code);
  const codeAt = new Int32Array(order.length);
  order.forEach((position, code) => (codeAt[position] = code));
  const usersByRank = codeAt.filter((code) => code < users);
  const itemsByRank = codeAt.filter((code) => code >= users);
  const offsets = new Int32Array(users + 1);
  counts.forEach((length, rank) => (offsets[usersByRank[rank] + 1] = length));
  for (let user = 0; user < users; user++) offsets[user + 1] += offsets[user];
  check(counts.reduce((sum, length) => sum + length, 0) === edges, "its interactions do not add up");
  const known = new Int32Array(edges);
  let at = 0;
  counts.forEach((length, rank) => {
    const start = offsets[usersByRank[rank]];
    let item = -1;
    for (let i = 0; i < length; i++) {
      item += gaps[at++] + 1;
      check(item < items, "its interactions name an item that is not there");
      known[start + i] = itemsByRank[item] - users;
    }
    known.subarray(start, start + length).sort();
  });
  return { offsets, items: known };
}

/** Codes of users and items that training never saw, and how many took each item where that is known. */
async function coldStart(tensors, { users: numCold, items: numUnseen, degrees: hasDegrees }, numUsers, numItems) {
  check(typeof hasDegrees === "boolean", "it does not say whether it counts the takers of items");
  const users = await ascendingCodes(tensors, "cold.users", count(numCold, "cold.users"), numUsers);
  const unseen = count(numUnseen, "cold.items");
  if (!hasDegrees) {
    check(users.length === 0, "it does not say which items are popular");
    return { users, items: await ascendingCodes(tensors, "cold.items", unseen, numItems), degrees: null };
  }
  const degrees = Float32Array.from(await numberList(tensors, "cold.degrees", numItems));
  check(degrees.every((degree) => degree <= numUsers), "it counts more takers of an item than there are users");
  const items = codesWhere(degrees, (degree) => degree === 0);
  check(items.length === unseen, "its items without takers do not add up");
  return { users, items, degrees };
}

function coldStartOf({ offsets, items }, numItems) {
  const degrees = new Float32Array(numItems);
  for (const item of items) degrees[item] += 1;
  const users = codesWhere(offsets.subarray(1), (end, user) => end === offsets[user]);
  return { users, items: codesWhere(degrees, (degree) => degree === 0), degrees };
}

/** The same of levels of popularity, which rank as degrees do: nobody took an item of level 0. */
function coldStartOfLevels(levels) {
  const items = codesWhere(levels, (level) => level === 0);
  return { users: new Int32Array(0), items, degrees: Float32Array.from(levels) };
}

function codesWhere(values, isWanted) {
  return Int32Array.from(values, (_, code) => code).filter((code) => isWanted(values[code], code));
}

async function ascendingCodes(tensors, name, length, most) {
  check(length <= most, `${name} are more than there are`);
  if (length === 0) return new Int32Array(0);
  let code = -1;
  const codes = Float64Array.from(await numberList(tensors, name, length), (gap) => (code += gap + 1));
  check(code < most, `${name} lead beyond the last`);
  return Int32Array.from(codes);
}

/** Ids as text, in native order. */
async function ids(tensors, name, { kind, bytes }, length) {
  if (kind === "range") return Array.from({ length }, (_, code) => String(code));
  if (kind === "strings") {
    const found = await strings(tensors, name, bytes, length);
    check(new Set(found).size === length, `${name} are not distinct`);
    return found;
  }
  choice(kind, "the kind of ids", ["integers"]);
  let id = -1n;
  const found = Array.from(await numberList(tensors, name, length), (gap) => String((id += BigInt(gap) + 1n)));
  check(id < 2n ** 63n, `${name} are too large`);
  return found;
}

async function strings(tensors, name, bytes, length) {
  const texts = JSON.parse(utf8(await inflate(tensors, name, bytes), name));
  const isList = Array.isArray(texts) && texts.length === length && texts.every((text) => typeof text === "string");
  check(isList, `${name} should be ${length} texts`);
  check(!texts.some(isBroken), `${name} hold half a character`);
  return texts;
}

/** The tower's layers, first to last: rows of weights, and biases. */
function weights(tensors) {
  const wanted = [...tensors.keys()].filter((name) => name.startsWith("backbone."));
  const read = (name) => {
    const tensor = tensors.take(name);
    return { shape: tensor.shape, values: floats(tensor) };
  };
  return Array.from({ length: Math.ceil(wanted.length / 2) }, (_, number) => {
    const name = number === 0 ? "backbone.first" : `backbone.rest.${number - 1}`;
    const [weight, bias] = [read(`${name}.weight`), read(`${name}.bias`)];
    const [outputs, inputs] = weight.shape;
    check(bias.shape.length === 1 && bias.shape[0] === outputs, `${name} and its biases differ in length`);
    return { outputs, inputs, weight: weight.values, bias: bias.values };
  });
}

/** A tower takes two vectors, each layer what the one before gives, and the last gives one number. */
function checkTower(layers, columns) {
  let inputs = 2 * columns;
  for (const layer of layers) {
    check(layer.inputs === inputs, "the layers of its tower do not fit together");
    inputs = layer.outputs;
  }
  check(layers.length > 0 && inputs === 1, "its tower does not end in one number");
}

/** Numbers in a vector. */
const widthOf = ({ propagated: ready, tables, combine }) =>
  ready ? ready.columns : combine === "concat" ? tables.reduce((sum, table) => sum + table.columns, 0) : tables[0].columns;
