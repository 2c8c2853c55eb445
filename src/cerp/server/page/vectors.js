// From decoded tables to the vectors that rank: docs/format.md, sections "Vectors" and "Weights".

const HASH_PRIME = 2 ** 31 - 1;
const WIDTH = 4; // Columns propagated together: they share cache lines, and their sums stay in registers.

/** Vectors of all entities by code, as float32. */
export function compose(file) {
  const length = file.usersInTables + file.numItems;
  return composeAt(file.positions ?? Int32Array.from({ length }, (_, code) => code), file);
}

/** Vectors at some positions, as float32: one row of each table, added, multiplied or joined. */
export function composeAt(places, { tables, combine, usersInTables, numItems }) {
  const length = usersInTables + numItems;
  const columns = combine === "concat" ? tables.reduce((sum, table) => sum + table.columns, 0) : tables[0].columns;
  const vectors = new Float32Array(places.length * columns);
  let first = 0;
  tables.forEach((table, number) => {
    const join = number === 0 || combine === "concat" ? "set" : combine;
    for (let at = 0; at < places.length; at++) {
      const from = rowOf(table, places[at], length) * table.columns;
      const to = at * columns + first;
      for (let c = 0; c < table.columns; c++) {
        const value = table.weight[from + c];
        if (join === "set") vectors[to + c] = value;
        else if (join === "sum") vectors[to + c] += value;
        else vectors[to + c] *= value;
      }
    }
    if (combine === "concat") first += table.columns;
  });
  return { columns, vectors };
}

/** The largest row that a position of `length` can have. In BigInt, because a size may be any. */
export function lastRow({ kind, size }, length) {
  switch (kind) {
    case "identity": return length - 1;
    case "modulo": return Math.min(length, size) - 1;
    case "quotient": return Math.floor((length - 1) / size);
    case "scaled": return Number((BigInt(length - 1) * BigInt(size)) / BigInt(length));
    default: return size - 1;
  }
}

function rowOf({ index: { kind, size, factor, offset }, codes }, k, length) {
  switch (kind) {
    case "identity": return k;
    case "modulo": return k % size;
    case "quotient": return Math.floor(k / size);
    case "scaled": return Math.floor((k * size) / length);
    case "hashed": return ((factor * k + offset) % HASH_PRIME) % size;
    case "coded": return codes ? codes[k] : 0;
    default: throw new Error(`The index ${kind} is not known.`);
  }
}

/**
 * LightGCN: 1/(L+1) Σ_l Â^l E in float64, neighbours in ascending code, rounded once at the end.
 * A few columns at a time: little is held beyond the vectors themselves.
 */
export function propagate({ vectors, columns }, { layers, seen, numUsers, numItems }) {
  const graph = bothWays(seen, numUsers, numItems);
  const length = numUsers + numItems;
  const scale = new Float64Array(length * WIDTH).map((_, at) => {
    const node = Math.floor(at / WIDTH);
    const degree = graph.offsets[node + 1] - graph.offsets[node];
    return degree ? 1 / Math.sqrt(degree) : 0;
  });
  const result = new Float32Array(vectors.length);
  const layer = new Float64Array(length * WIDTH);
  const total = new Float64Array(length * WIDTH);
  for (let first = 0; first < columns; first += WIDTH) {
    const width = Math.min(WIDTH, columns - first);
    for (let node = 0; node < length; node++) {
      for (let c = 0; c < width; c++) layer[node * WIDTH + c] = vectors[node * columns + first + c];
    }
    total.set(layer);
    for (let l = 0; l < layers; l++) {
      for (let at = 0; at < layer.length; at++) layer[at] *= scale[at];
      const sums = neighbourSums(graph, layer);
      for (let at = 0; at < layer.length; at++) total[at] += layer[at] = scale[at] * sums[at];
    }
    for (let node = 0; node < length; node++) {
      for (let c = 0; c < width; c++) result[node * columns + first + c] = total[node * WIDTH + c] / (layers + 1);
    }
  }
  return { columns, vectors: result };
}

/** Sums over the neighbours of each node, for WIDTH columns. Written out: a loop is five times slower. */
function neighbourSums({ offsets, neighbours }, values) {
  const sums = new Float64Array(values.length);
  for (let node = 0; node + 1 < offsets.length; node++) {
    let a = 0, b = 0, c = 0, d = 0;
    const end = offsets[node + 1];
    for (let edge = offsets[node]; edge < end; edge++) {
      const from = neighbours[edge] * WIDTH;
      a += values[from];
      b += values[from + 1];
      c += values[from + 2];
      d += values[from + 3];
    }
    const to = node * WIDTH;
    sums[to] = a;
    sums[to + 1] = b;
    sums[to + 2] = c;
    sums[to + 3] = d;
  }
  return sums;
}

/** Neighbours of every entity, ascending: items of users, then users of items. */
export function bothWays(seen, numUsers, numItems) {
  const edges = seen.items.length;
  const offsets = new Int32Array(numUsers + numItems + 1);
  offsets.set(seen.offsets);
  for (const item of seen.items) offsets[numUsers + item + 1] += 1;
  for (let node = numUsers + 1; node < offsets.length; node++) offsets[node] += offsets[node - 1];
  const neighbours = new Int32Array(2 * edges);
  const next = offsets.slice(numUsers, -1);
  for (let user = 0; user < numUsers; user++) {
    for (let edge = offsets[user]; edge < offsets[user + 1]; edge++) {
      neighbours[edge] = numUsers + seen.items[edge];
      neighbours[next[seen.items[edge]]++] = user;
    }
  }
  return { offsets, neighbours };
}
