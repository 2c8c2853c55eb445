// The tower: W_n relu(... relu(W_1 [e_u; e_i] + b_1) ...) + b_n, in double precision.

export class Perceptron {
  #first;
  #rest;
  #itemHalves;

  /** The items' halves of the first layer are computed once, here. */
  constructor(layers, columns, itemVectors) {
    [this.#first, ...this.#rest] = layers;
    const { outputs } = this.#first;
    const items = itemVectors.length / columns;
    this.#itemHalves = new Float64Array(items * outputs);
    for (let item = 0; item < items; item++) {
      for (let row = 0; row < outputs; row++) {
        this.#itemHalves[item * outputs + row] = this.#half(row, columns, itemVectors, item * columns, columns);
      }
    }
  }

  /** Fills `scores` with those of all items for a user's vector. */
  score(userVector, scores) {
    const { outputs, bias } = this.#first;
    const userHalf = Float64Array.from(bias, (b, row) => this.#half(row, 0, userVector, 0, userVector.length) + b);
    const hidden = new Float64Array(outputs);
    const spaces = this.#rest.map((layer) => new Float64Array(layer.outputs));
    for (let item = 0; item < scores.length; item++) {
      for (let row = 0; row < outputs; row++) hidden[row] = userHalf[row] + this.#itemHalves[item * outputs + row];
      let values = hidden;
      this.#rest.forEach((layer, number) => {
        apply(layer, values, spaces[number]);
        values = spaces[number];
      });
      scores[item] = values[0];
    }
  }

  /** One row of the first layer over the user's columns (from 0) or the item's (from `columns`). */
  #half(row, firstColumn, vectors, start, columns) {
    const { weight, inputs } = this.#first;
    let sum = 0;
    for (let c = 0; c < columns; c++) sum += weight[row * inputs + firstColumn + c] * vectors[start + c];
    return sum;
  }
}

/** into = W relu(values) + b */
function apply({ weight, bias, inputs, outputs }, values, into) {
  for (let row = 0; row < outputs; row++) {
    let sum = 0;
    for (let c = 0; c < inputs; c++) if (values[c] > 0) sum += weight[row * inputs + c] * values[c];
    into[row] = sum + bias[row];
  }
}
