// A vector for someone who was not there in training, from items they like.
//
// Users are taken for a Gaussian with mean m and covariance C, scores for the logits of what they
// like. One Newton step from m towards the most probable vector after n items with mean y:
//   z = m + x,  (I + n C S) x = n C (y - a),  a = Σ p_i v_i,  S = Σ p_i (v_i - a)(v_i - a)ᵀ
// with p the softmax of the mean user's scores. The same as cerp.runtime.folding.

// Of ALS, whose scores are fitted to 0 and 1, it is the user's step of ALS with the mean user m beside it:
//   (1.1 G + (α - 1) Σ v_j v_jᵀ) z = 0.1 G m + α Σ v_j,  G = Σ v_i v_iᵀ + λ I,  j the liked items, i all

import { inversePower } from "./filter.js";

// ⌈2^(l / 8)⌉ of each level l of popularity: the smallest 1 + d that has it.
const TAKERS = Array.from({ length: 256 }, (_, level) => Math.ceil(2 ** (level / 8)));
const MOST_EVIDENCE = 32;
const MEAN_USER = 0.1;

export class AlsFoldIn {
  #items;
  #columns;
  #alpha;
  #gram;
  #prior;

  /** Vectors of all users and of all items, row by row, and the metadata's folding. */
  constructor(users, items, columns, { alpha, regularization }) {
    this.#items = items;
    this.#columns = columns;
    this.#alpha = alpha;
    const ones = new Float64Array(items.length / columns).fill(1);
    this.#gram = covariance(items, new Float64Array(columns), ones);
    for (let c = 0; c < columns; c++) this.#gram[c * (columns + 1)] += regularization;
    const alike = new Float64Array(users.length / columns).fill(columns / users.length);
    const mean = weightedSum(users, alike, columns);
    this.#prior = product(this.#gram, mean, columns).map((value) => MEAN_USER * value);
  }

  /** @param {Int32Array} liked distinct item codes, ascending */
  vector(liked) {
    const d = this.#columns;
    const chosen = Float64Array.from({ length: liked.length * d }, (_, at) => this.#items[liked[Math.floor(at / d)] * d + (at % d)]);
    const ones = new Float64Array(liked.length).fill(1);
    const squares = covariance(chosen, new Float64Array(d), ones);
    const sum = weightedSum(chosen, ones, d);
    const left = this.#gram.map((value, at) => (1 + MEAN_USER) * value + (this.#alpha - 1) * squares[at]);
    return solve(left, this.#prior.map((value, c) => value + this.#alpha * sum[c]));
  }
}

/** ⌊8 log₂(1 + d)⌋ of how often an item was taken. */
export function popularityLevel(degree) {
  let level = 0;
  while (level + 1 < TAKERS.length && TAKERS[level + 1] <= 1 + degree) level += 1;
  return level;
}

/** Of a file with sums, Σ w_j v_j over the liked items, ascending: w_j = ⌈2^(level / 8)⌉^-t. */
export class SummedHistory {
  #items;
  #columns;
  #weights;

  constructor({ exponent, levels }, items, columns) {
    this.#items = items;
    this.#columns = columns;
    const byLevel = Float64Array.from(TAKERS, (takers) => inversePower(takers, exponent));
    this.#weights = Float64Array.from(levels, (level) => byLevel[level]);
  }

  /** @param {Int32Array} liked distinct item codes, ascending */
  vector(liked) {
    const d = this.#columns;
    const sum = new Float64Array(d);
    for (const code of liked) {
      for (let c = 0; c < d; c++) sum[c] += this.#items[code * d + c] * this.#weights[code];
    }
    return sum;
  }
}

export class FoldIn {
  #items;
  #columns;
  #mean;
  #expected;
  #covariance;
  #spread;

  /** By the vectors of all users, row by row. */
  static ofUsers(users, items, columns) {
    const alike = new Float64Array(users.length / columns).fill(columns / users.length);
    const mean = weightedSum(users, alike, columns);
    return new FoldIn(mean, covariance(users, mean, alike), items, columns);
  }

  /** By the mean and the variances that a file without users has of them. */
  static ofTastes({ mean, variance }, items, columns) {
    const diagonal = new Float64Array(columns * columns);
    variance.forEach((value, at) => (diagonal[at * (columns + 1)] = value));
    return new FoldIn(Float64Array.from(mean), diagonal, items, columns);
  }

  /** Mean and covariance of users; vectors of all items, row by row. */
  constructor(mean, userCovariance, items, columns) {
    this.#items = items;
    this.#columns = columns;
    this.#mean = mean;
    const chances = softmax(items, this.#mean);
    this.#expected = weightedSum(items, chances, columns);
    this.#covariance = userCovariance;
    this.#spread = product(this.#covariance, covariance(items, this.#expected, chances), columns);
  }

  /** @param {Int32Array} liked distinct item codes, ascending */
  vector(liked) {
    const d = this.#columns;
    const evidence = Math.min(liked.length, MOST_EVIDENCE);
    const surprise = this.#expected.map((expected, c) => {
      let sum = 0;
      for (const code of liked) sum += this.#items[code * d + c];
      return sum / liked.length - expected;
    });
    const right = product(this.#covariance, surprise, d).map((value) => evidence * value);
    const left = this.#spread.map((value, at) => evidence * value + (at % (d + 1) === 0 ? 1 : 0));
    const step = solve(left, right);
    return this.#mean.map((value, c) => value + step[c]);
  }
}

/** Σ w_n v_n */
function weightedSum(vectors, weights, columns) {
  const sum = new Float64Array(columns);
  weights.forEach((weight, row) => {
    for (let c = 0; c < columns; c++) sum[c] += weight * vectors[row * columns + c];
  });
  return sum;
}

/** p_i ∝ exp⟨z, v_i⟩ */
function softmax(vectors, z) {
  const scores = Float64Array.from({ length: vectors.length / z.length }, (_, row) =>
    z.reduce((sum, value, c) => sum + value * vectors[row * z.length + c], 0),
  );
  const most = scores.reduce((a, b) => Math.max(a, b));
  const powers = scores.map((score) => Math.exp(score - most));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / total);
}

/** Σ w_n (v_n - c)(v_n - c)ᵀ, which is symmetric: one half is computed, the other copied. */
function covariance(vectors, centre, weights) {
  const d = centre.length;
  const result = new Float64Array(d * d);
  const apart = new Float64Array(d);
  weights.forEach((weight, row) => {
    for (let c = 0; c < d; c++) apart[c] = vectors[row * d + c] - centre[c];
    for (let i = 0; i < d; i++) {
      const scaled = weight * apart[i];
      for (let j = i; j < d; j++) result[i * d + j] += scaled * apart[j];
    }
  });
  for (let i = 0; i < d; i++) for (let j = 0; j < i; j++) result[i * d + j] = result[j * d + i];
  return result;
}

/** A B for a square A with `size` rows and a B with as many, row by row. */
function product(a, b, size) {
  const width = b.length / size;
  const result = new Float64Array(b.length);
  for (let i = 0; i < size; i++) {
    for (let m = 0; m < size; m++) {
      for (let j = 0; j < width; j++) result[i * width + j] += a[i * size + m] * b[m * width + j];
    }
  }
  return result;
}

/** x with A x = b, by elimination with partial pivoting; A and b are overwritten. */
function solve(a, b) {
  const d = b.length;
  for (let column = 0; column < d; column++) {
    let pivot = column;
    for (let row = column + 1; row < d; row++) {
      if (Math.abs(a[row * d + column]) > Math.abs(a[pivot * d + column])) pivot = row;
    }
    for (let c = 0; c < d; c++) [a[column * d + c], a[pivot * d + c]] = [a[pivot * d + c], a[column * d + c]];
    [b[column], b[pivot]] = [b[pivot], b[column]];
    for (let row = column + 1; row < d; row++) {
      const factor = a[row * d + column] / a[column * d + column];
      for (let c = column; c < d; c++) a[row * d + c] -= factor * a[column * d + c];
      b[row] -= factor * b[column];
    }
  }
  for (let row = d - 1; row >= 0; row--) {
    for (let c = row + 1; c < d; c++) b[row] -= a[row * d + c] * b[c];
    b[row] /= a[row * d + row];
  }
  return b;
}
