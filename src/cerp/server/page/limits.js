// What a model file may ask of a machine: memory, and steps before the first list. As cerp.runtime.limits counts.

const MAX_MEMORY = 2 ** 31;
const STEPS_PER_BYTE = 4096;
const BYTES_PER_STEP = 4;
const PRODUCTS_PER_STEP = 16;

export class Limits {
  #memory;
  #steps;

  constructor(fileBytes, maxMemory = MAX_MEMORY) {
    this.#memory = maxMemory;
    this.#steps = Math.max(maxMemory / BYTES_PER_STEP, STEPS_PER_BYTE * fileBytes);
  }

  /** Refuse a decoded file whose vectors take more. */
  refuseModel({ tables, combine, layers, seen, usersInTables, numItems, weights }) {
    if (!tables) return; // No vectors, or all of them are in the file.
    const length = usersInTables + numItems;
    const widths = tables.map(({ columns }) => columns);
    const columns = combine === "concat" ? widths.reduce((sum, width) => sum + width, 0) : widths[0];
    const halves = weights[0]?.outputs ?? 0;
    const memory = 12 * length * columns + 8 * numItems * halves;
    if (memory > this.#memory) throw new Error(`This model takes about ${memory} bytes, more than ${this.#memory}.`);
    let steps = length * widths.reduce((sum, width) => sum + 1 + width, 0);
    if (layers) steps += layers * columns * (2 * seen.items.length + length);
    this.#refuse(steps + (numItems * columns * halves) / PRODUCTS_PER_STEP, "Loading this model");
  }

  /** Refuse to fold in where that takes more: N d² + 2 d³ multiplications. */
  refuseFoldIn(length, columns) {
    const products = length * columns ** 2 + 2 * columns ** 3;
    this.#refuse(products / PRODUCTS_PER_STEP, "Recommending for someone new");
  }

  /** Refuse to hand out so many vectors of a file for lookups where they take more. */
  refuseVectors(file, length, columns) {
    const memory = 4 * length * columns;
    if (memory > this.#memory) throw new Error(`${length} vectors take ${memory} bytes, more than ${this.#memory}; name fewer ids.`);
    this.#refuse(lookupSteps(file, length), `Composing ${length} vectors`);
  }

  /** Refuse to compare all vectors of a file for lookups with one where that takes more. */
  refuseComparison(file, columns) {
    const steps = lookupSteps(file, file.numItems) + file.numItems * columns;
    this.#refuse(steps, `Comparing ${file.numItems} vectors`);
  }

  #refuse(steps, what) {
    if (steps > this.#steps) throw new Error(`${what} takes about ${Math.round(steps)} steps, more than ${Math.round(this.#steps)}.`);
  }
}

/** Values that are read, added or multiplied for so many vectors of a file for lookups. */
function lookupSteps({ tables, projection }, length) {
  const products = projection ? projection.matrix.length / PRODUCTS_PER_STEP : 0;
  return length * tables.reduce((sum, { columns }) => sum + 1 + columns, products);
}
