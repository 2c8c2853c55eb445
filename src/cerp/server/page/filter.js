// The graph filter, in the arithmetic that docs/format.md defines to the bit: double precision, sums in
// ascending order, powers made of square roots, a logarithm whose terms are counted. As cerp.graph does.

import { bothWays } from "./vectors.js";

const ROOTS = 5; // Exponents are whole multiples of 1 / 2^5.
const LOG_2 = 0.6931471805599453;
const ROOT_HALF = 0.7071067811865476;
const LOG_TERMS = 9;

export class GraphFilter {
  #graph;
  #numUsers;
  #start;
  #middle;
  #end;
  #floor;
  #lent;
  #sharpening;

  /** @param {object} term the metadata's filter: q, p and r in multiples of 1/32, and how it is sharpened */
  constructor({ q, p, r, sharpening }, { seen, numUsers, numItems }) {
    this.#graph = bothWays(seen, numUsers, numItems);
    this.#numUsers = numUsers;
    const { offsets } = this.#graph;
    const degrees = Float64Array.from({ length: offsets.length - 1 }, (_, node) => offsets[node + 1] - offsets[node]);
    const [users, items] = [degrees.subarray(0, numUsers), degrees.subarray(numUsers)];
    this.#start = items.map((degree) => inversePower(degree, p));
    this.#middle = users.map((degree) => inversePower(degree, q));
    this.#end = items.map((degree) => inversePower(degree, r));
    this.#floor = Float32Array.from(items, (degree) => -1 / (1 + degree));
    this.#sharpening = sharpening;
    if (sharpening) this.#lent = items.map((degree) => inversePower(degree, sharpening.m));
  }

  /** F of all items for someone who has these (distinct, ascending): 0 where no path leads. */
  strengths(history) {
    const { offsets, neighbours } = this.#graph;
    const first = this.#numUsers;
    const reach = new Float64Array(first);
    for (const item of history) {
      const end = offsets[first + item + 1];
      for (let edge = offsets[first + item]; edge < end; edge++) reach[neighbours[edge]] += this.#start[item];
    }
    const sums = this.#backToItems(reach);
    if (this.#sharpening) this.#sharpen(sums);
    return Float32Array.from(sums, (sum, item) => sum * this.#end[item]);
  }

  /** The sums over the users of each item, of what each user was reached by. */
  #backToItems(reach) {
    const { offsets, neighbours } = this.#graph;
    const first = this.#numUsers;
    const sums = new Float64Array(this.#end.length);
    for (let user = 0; user < first; user++) {
      if (reach[user] === 0) continue;
      const weight = reach[user] * this.#middle[user];
      for (let edge = offsets[user]; edge < offsets[user + 1]; edge++) sums[neighbours[edge] - first] += weight;
    }
    return sums;
  }

  /** Take away, as often as asked, what the items reached would lend to each other; 0 at least is left. */
  #sharpen(sums) {
    const { offsets, neighbours } = this.#graph;
    const first = this.#numUsers;
    const { strength, times } = this.#sharpening;
    for (let time = 0; time < times; time++) {
      const reach = new Float64Array(first);
      for (let user = 0; user < first; user++) {
        let sum = 0;
        for (let edge = offsets[user]; edge < offsets[user + 1]; edge++) {
          const item = neighbours[edge] - first;
          sum += sums[item] * this.#lent[item];
        }
        reach[user] = sum;
      }
      this.#backToItems(reach).forEach((lent, item) => {
        sums[item] -= strength * lent;
      });
    }
    sums.forEach((sum, item) => {
      if (sum < 0) sums[item] = 0;
    });
  }

  /** Scores by the filter alone: what is not reached comes below, by popularity. */
  scores(history) {
    return this.strengths(history).map((strength, item) => (strength === 0 ? this.#floor[item] : strength));
  }

  /** Scores by vectors (float32) and filter together; popularity for someone without items. */
  mixed(scores, history, { beta, epsilon }) {
    if (history.length === 0) return this.#floor;
    const strengths = this.strengths(history);
    const taken = new Set(history);
    let peak = 0;
    strengths.forEach((strength, item) => {
      if (strength > peak && !taken.has(item)) peak = strength;
    });
    const least = naturalLog(epsilon);
    return scores.map((score, item) => {
      const reached = peak > 0 && strengths[item] !== 0;
      return score + beta * (reached ? naturalLog(epsilon + strengths[item] / peak) : least);
    });
  }
}

/** d^-x for a degree d and x = multiple / 32; 0 for a degree of 0. */
export function inversePower(degree, multiple) {
  if (degree === 0) return 0;
  let root = degree;
  let product = 1;
  for (let whole = multiple >> ROOTS; whole > 0; whole--) product *= root;
  for (let bit = ROOTS - 1; bit >= 0; bit--) {
    root = Math.sqrt(root);
    if ((multiple >> bit) & 1) product *= root;
  }
  return 1 / product;
}

const double = new DataView(new ArrayBuffer(8));

/** log x of a positive normal number: x = m 2^e, √½ <= m < √2, t = (m-1)/(m+1), Σ t^(2n+1)/(2n+1). */
export function naturalLog(x) {
  double.setFloat64(0, x);
  const high = double.getUint32(0);
  let power = (high >>> 20) - 1022;
  double.setUint32(0, (high & 0x000fffff) | (1022 << 20));
  let mantissa = double.getFloat64(0);
  if (mantissa < ROOT_HALF) {
    mantissa *= 2;
    power -= 1;
  }
  const t = (mantissa - 1) / (mantissa + 1);
  const square = t * t;
  let series = 1 / (2 * LOG_TERMS + 1);
  for (let term = LOG_TERMS - 1; term >= 0; term--) series = series * square + 1 / (2 * term + 1);
  return power * LOG_2 + 2 * t * series;
}
