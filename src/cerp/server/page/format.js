// Decodes a .cerp file into plain typed arrays, as docs/format.md describes it; checks what it reads.

import { addBitPlanes, floats, inflate, numberList, signedBytes, signedNibbles } from "./codecs.js";
import { FileError, check, count, readContainer } from "./container.js";

/**
 * @param {ArrayBuffer} file
 * @returns {Promise<object>} head (null: no vectors), layers, users and items (ids as text), titles, positions
 *   by code, tables or propagated vectors, seen (offsets, items), filter (exponents, beta, epsilon), weights
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
  check(users + items <= 2 ** 20 + 64 * file.length, "it claims more users and items than it can hold");
  const positions = metadata.order === "lehmer" ? lehmer(tensors.take("order"), users + items) : null;
  const model = {
    ...scoring(metadata),
    numUsers: users,
    numItems: items,
    positions,
    ...(metadata.embedding && (await embedding(tensors, metadata.embedding, users, items))),
    filter: filterTerm(metadata),
    weights: weights(tensors),
    seen: metadata.seen && (await seen(tensors, metadata.seen, users, items, positions)),
    users: await ids(tensors, "users.ids", metadata.ids.users, users),
    items: await ids(tensors, "items.ids", metadata.ids.items, items),
    titles: metadata.titles && (await strings(tensors, "titles", metadata.titles.bytes, items)),
  };
  const optional = metadata.optional ?? [];
  for (const name of [...tensors.keys()]) if (optional.includes(name.split(".")[0])) tensors.delete(name);
  check(tensors.size === 0, `it has a part that is not known: ${[...tensors.keys()][0]}`);
  check(!model.layers || model.propagated || model.seen, "it lacks the graph that its vectors come from");
  check((model.head === null) === !metadata.embedding, "its vectors do not fit its way to score");
  check(!model.filter || model.seen, "it lacks the graph that its filter works on");
  return model;
}

/** How vectors become a score, and the layers of propagation before it: the one place that knows the words. */
function scoring({ backbone, layers, filter }) {
  check(backbone !== "lookup", "it holds vectors for lookups and no recommender");
  const ways = { mf: ["dot", false], mlp: ["tower", false], lightgcn: ["dot", true], filter: [null, false] };
  const [, word, added] = /^(\w+?)(\+filter)?$/.exec(backbone) ?? [];
  check(Object.hasOwn(ways, word) && !(added && word === "filter"), `its way to score ${backbone} is not known`);
  const [head, propagates] = ways[word];
  check(Boolean(added || word === "filter") === Boolean(filter), "its filter does not fit its way to score");
  check(count(layers, "layers") <= 64 && layers > 0 === propagates, "its layers do not fit its way to score");
  return { head, layers };
}

/** The filter's exponents, in multiples of 1/32, and in a mixture beta and epsilon; null: there is none. */
function filterTerm({ embedding: vectors, filter }) {
  if (!filter) return null;
  for (const name of ["q", "p", "r"]) check(count(filter[name], name) <= 64, `its exponent ${name} is too large`);
  const { beta = null, epsilon } = filter;
  check((beta !== null) === Boolean(vectors), "its filter does not fit its vectors");
  const isNumber = (value, least, most) => typeof value === "number" && value >= least && value <= most;
  check(beta === null || (isNumber(beta, 0, 1e6) && isNumber(epsilon, 1e-12, 1)), "its filter counts for nonsense");
  return filter;
}

/** Tables with what puts them together, or vectors that are propagated already. */
async function embedding(tensors, { combine, tables, propagated, columns, values }, users, items) {
  const dense = (rows) => ({ rows, columns, values, stored: rows * columns, positions: "dense" });
  const wanted = propagated
    ? { "propagated.users": dense(users), "propagated.items": dense(items) }
    : Object.fromEntries(tables.map((table, number) => [`embedding.${number}`, table]));
  let cells = 0;
  for (const [name, table] of Object.entries(wanted)) cells += count(table.rows, name) * count(table.columns, name);
  let bytes = 0;
  for (const [name, tensor] of tensors) if (/^(embedding|propagated)\./.test(name)) bytes += tensor.bytes.length;
  check(cells <= 2 ** 22 + 256 * bytes, "it claims larger tables than it can fill");
  const decoded = [];
  for (const [name, table] of Object.entries(wanted)) {
    const codes = table.index?.kind === "coded" ? await codesOfTable(tensors, name, table, users + items) : null;
    decoded.push({ ...table, codes, weight: await weightsOfTable(tensors, name, table) });
  }
  return propagated
    ? { propagated: { columns, users: decoded[0].weight, items: decoded[1].weight } }
    : { combine, tables: decoded };
}

/** The row of every position in a table of learned codes; null: the only row there is. */
async function codesOfTable(tensors, name, { rows, index: { size, codes: codec } }, length) {
  check(count(size, name) >= 1 && size < 2 ** 31, `${name} has codes of ${size} rows`);
  check(length === 0 || size <= rows, `${name} has fewer rows than its codes may name`);
  const width = 32 - Math.clz32(size - 1);
  const bytes = Math.ceil((length * width) / 8);
  let packed;
  if (codec === "deflated") packed = { bytes: await inflate(tensors, `${name}.codes`, bytes) };
  else if (codec === "planes") packed = tensors.take(`${name}.codes`);
  else check(false, `${name}.codes are written as ${codec}, which is not known`);
  check(codec === "deflated" || packed.dtype === "U8", `${name}.codes are ${packed.dtype}`);
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
  const values = tensors.take(`${name}.values`);
  const scales = codec.startsWith("int") ? floats(tensors.take(`${name}.scales`)) : null;
  check(!scales || scales.length === rows, `${name} needs a scale for each row`);
  const numbers = { fp32: floats, fp16: floats, int8: signedBytes, int4: signedNibbles }[codec](values, stored);
  check(numbers.length === stored, `${name} has the wrong number of values`);
  const weight = new Float32Array(cells);
  for (let i = 0; i < stored; i++) {
    const cell = places ? places[i] : i;
    weight[cell] = scales ? scales[Math.floor(cell / columns)] * numbers[i] : numbers[i];
  }
  return weight;
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
async function seen(tensors, { edges }, users, items, positions) {
  const counts = await numberList(tensors, "seen.counts", users);
  const gaps = await numberList(tensors, "seen.gaps", edges);
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

/** Ids as text, in native order. */
async function ids(tensors, name, { kind, bytes }, length) {
  if (kind === "range") return Array.from({ length }, (_, code) => String(code));
  if (kind === "strings") return strings(tensors, name, bytes, length);
  check(kind === "integers", `ids are ${kind}, which is not known`);
  let id = -1n;
  return Array.from(await numberList(tensors, name, length), (gap) => String((id += BigInt(gap) + 1n)));
}

async function strings(tensors, name, bytes, length) {
  const texts = JSON.parse(new TextDecoder().decode(await inflate(tensors, name, bytes)));
  const isList = Array.isArray(texts) && texts.length === length && texts.every((text) => typeof text === "string");
  check(isList, `${name} should be ${length} texts`);
  return texts;
}

/** The tower's layers, first to last: rows of weights, and biases. */
function weights(tensors) {
  const names = [...tensors.keys()].filter((name) => name.startsWith("backbone.") && name.endsWith(".weight"));
  const number = (name) => (name === "backbone.first.weight" ? -1 : Number(name.split(".")[2]));
  return names.sort((a, b) => number(a) - number(b)).map((name) => {
    const weight = tensors.take(name);
    const [outputs, inputs] = weight.shape;
    const bias = floats(tensors.take(name.replace(/weight$/, "bias")));
    check(bias.length === outputs, `${name} and its biases differ in length`);
    return { outputs, inputs, weight: floats(weight), bias };
  });
}
