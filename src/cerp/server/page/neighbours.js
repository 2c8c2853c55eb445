// Weights between items: score(i) = Σ S_ji over the items j that someone has. docs/format.md, "Neighbours".

import { half, inflate } from "./codecs.js";
import { check, count } from "./fields.js";

/**
 * @param {Function} pairs decodes which targets each source has, as interactions are
 * @returns {Promise<object>} targets of source j, ascending, and their values from offsets[j] to offsets[j + 1];
 *   levels of popularity by item
 */
export async function decodeNeighbours(tensors, { weights }, items, pairs) {
  const edges = count(weights, "weights");
  const levels = await inflate(tensors, "neighbours.popularity", items);
  const line = Int32Array.from(levels, (_, code) => code).sort((a, b) => levels[b] - levels[a] || a - b);
  const positions = new Int32Array(2 * items);
  line.forEach((code, rank) => {
    positions[code] = rank;
    positions[items + code] = items + rank;
  });
  const { offsets, items: targets } = await pairs(tensors, { edges }, items, items, positions, "neighbours");
  const planes = await inflate(tensors, "neighbours.scales", 2 * items);
  const scales = Float32Array.from(levels, (_, code) => half((planes[code] << 8) | planes[items + code]));
  check(scales.every((scale) => scale >= 0 && scale < Infinity), "its scales are not what they should be");
  const integers = new Int8Array((await inflate(tensors, "neighbours.values", edges)).buffer);
  check(integers.every((integer) => integer !== 0 && integer !== -128), "its weights are not what they should be");
  const values = new Float32Array(edges);
  scales.forEach((scale, source) => {
    for (let at = offsets[source]; at < offsets[source + 1]; at++) values[at] = scale * integers[at];
  });
  return { offsets, targets, values, levels };
}

export class Neighbours {
  #file;
  #floor;

  constructor(file) {
    this.#file = file;
    this.#floor = Float32Array.from(file.levels, (level) => -1 / (1 + level));
  }

  /** Of all items for someone who has these (distinct, ascending): what they say nothing of comes by popularity. */
  scores(history) {
    const { offsets, targets, values, levels } = this.#file;
    const sums = new Float64Array(levels.length);
    for (const source of history) {
      for (let at = offsets[source]; at < offsets[source + 1]; at++) sums[targets[at]] += values[at];
    }
    return Float32Array.from(sums, (sum, item) => (Math.fround(sum) === 0 ? this.#floor[item] : sum));
  }
}
