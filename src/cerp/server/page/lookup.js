// A .cerp file for lookups: vectors by id, and the ids nearest to one. As cerp.runtime.lookup in Python, to the
// bit: sums in double precision, rounded to float32 once, equal similarities in the order of ids.

import { topK } from "./ranking.js";
import { composeAt } from "./vectors.js";

const STRETCH = 4096; // Vectors that are composed together.

/** Ids are text on the way in and out, also where those of the file are integers. */
export class Lookup {
  /** The ids there are, in the order of the vectors. */
  ids;
  /** Numbers in a vector. */
  dim;
  #file;
  #first;
  #limits;
  #place;

  /** @param {object} file tables, combine, numUsers and numItems, and projection; the ids are at places from `first` on */
  constructor(file, limits, ids = file.items, first = 0) {
    this.ids = ids;
    this.#file = file;
    this.#first = first;
    this.#limits = limits;
    this.#place = new Map(ids.map((id, place) => [id, place]));
    this.dim = file.projection?.outputs ?? composeAt([], file).columns;
  }

  /** A Float32Array for each id; of all, in order, where none are named. */
  vectors(ids = this.ids) {
    this.#limits.refuseVectors(this.#file, ids.length, this.dim);
    const rows = [];
    for (let start = 0; start < ids.length; start += STRETCH) {
      const places = Int32Array.from(ids.slice(start, start + STRETCH), (id) => this.#placeOf(id));
      const composed = this.#composed(places);
      for (let row = 0; row < places.length; row++) rows.push(composed.slice(row * this.dim, (row + 1) * this.dim));
    }
    return rows;
  }

  /** The k other ids whose vectors have the largest cosine with that of an id: [{id, similarity}], nearest first. */
  nearest(id, k = 10) {
    if (!(k >= 1)) throw new Error(`k must be at least 1, got ${k}`);
    this.#limits.refuseComparison(this.#file, this.dim);
    const own = this.#placeOf(id);
    const target = this.#composed([own]);
    const length = lengthAt(target, 0, this.dim);
    const cosines = new Float32Array(this.ids.length);
    for (let start = 0; start < cosines.length; start += STRETCH) {
      const places = Int32Array.from({ length: Math.min(STRETCH, cosines.length - start) }, (_, row) => start + row);
      const composed = this.#composed(places);
      places.forEach((place, row) => {
        let product = 0;
        for (let c = 0; c < this.dim; c++) product += target[c] * composed[row * this.dim + c];
        const lengths = length * lengthAt(composed, row, this.dim);
        cosines[place] = lengths ? product / lengths : 0;
      });
    }
    const allowed = new Uint8Array(cosines.length).fill(1);
    allowed[own] = 0;
    return topK(cosines, k, allowed).map((place) => ({ id: this.ids[place], similarity: cosines[place] }));
  }

  /** Ids for what someone types: the one that is the text, then those that start with it. */
  search(text, limit) {
    const wanted = text.trim().toLowerCase();
    const found = [[], []];
    for (const id of this.ids) {
      const name = id.toLowerCase();
      if (name === wanted) found[0].push(id);
      else if (found[1].length < limit && name.startsWith(wanted)) found[1].push(id);
    }
    return found.flat().slice(0, limit);
  }

  #placeOf(id) {
    const place = this.#place.get(String(id));
    if (place === undefined) throw new Error(`unknown id '${id}'`);
    return place;
  }

  #composed(places) {
    const { projection } = this.#file;
    const composed = composeAt(places.map((place) => this.#first + place), this.#file).vectors;
    const vectors = projection ? projected(composed, projection) : composed;
    if (!vectors.every(Number.isFinite)) throw new Error("A vector is not finite; values of the file are too large to be added.");
    return vectors;
  }
}

/** Lookups by the names of fields. */
export class FieldLookups extends Map {
  /** Numbers in a vector. */
  dim;

  constructor(file, limits) {
    super();
    let first = 0;
    for (const { name, ids, table, columns } of file.fields) {
      if (table) {
        const index = { kind: "identity", size: 0, factor: 0, offset: 0 };
        const own = { tables: [{ columns, weight: table, index }], combine: "sum", numUsers: 0, numItems: ids.length };
        this.set(name, new Lookup(own, limits, ids));
      } else {
        this.set(name, new Lookup(file, limits, ids, first));
        first += ids.length;
      }
      this.dim = this.get(name).dim;
    }
  }
}

function lengthAt(vectors, row, dim) {
  let sum = 0;
  for (let at = row * dim; at < (row + 1) * dim; at++) sum += vectors[at] * vectors[at];
  return Math.sqrt(sum);
}

/** scale · z·M + mean of each composed z. */
function projected(composed, { inputs, outputs, matrix, mean, scale }) {
  const rows = composed.length / inputs;
  const vectors = new Float32Array(rows * outputs);
  const sums = new Float64Array(outputs);
  for (let row = 0; row < rows; row++) {
    sums.fill(0);
    for (let i = 0; i < inputs; i++) {
      const value = composed[row * inputs + i];
      for (let j = 0; j < outputs; j++) sums[j] += value * matrix[i * outputs + j];
    }
    for (let j = 0; j < outputs; j++) vectors[row * outputs + j] = sums[j] * scale + mean[j];
  }
  return vectors;
}
