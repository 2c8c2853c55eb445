// The metadata of a file that may lie, read one checked field at a time: the rules of cerp.artifact.fields.

const MAX_SIZE = 2 ** 31 - 1; // No count in a file is larger.

/** A file that cannot be used, and why. */
export class FileError extends Error {
  constructor(problem) {
    super(`This is not a usable model file: ${problem}.`);
  }
}

export function check(holds, problem) {
  if (!holds) throw new FileError(problem);
}

/** A count in the header: a natural number. One that is written 1.0 or 1e3 is none (json.js makes it a Decimal). */
export function count(value, what, { smallest = 0, largest = MAX_SIZE } = {}) {
  const isWhole = typeof value === "number" && value >= smallest && value <= largest && value % 1 === 0;
  check(isWhole, `the number of ${what} is ${shown(value)}`);
  return value;
}

/** A number of any kind from `smallest` to `largest`. */
export function decimal(value, what, smallest, largest) {
  const isNumber = typeof value === "number" || value instanceof Number;
  check(isNumber && value >= smallest && value <= largest, `${what} is ${shown(value)}`);
  return Number(value);
}

/** One of a few words. */
export function choice(value, what, words) {
  check(value !== undefined, `${what} is missing`);
  check(typeof value === "string" && words.includes(value), `${what} is ${shown(value)}, which is not known`);
  return value;
}

/** A JSON object. */
export function object(value, what) {
  check(isObject(value), `${what} is not described`);
  return value;
}

/** The same, or null where there is none. */
export const optionalObject = (value, what) => ((value ?? null) === null ? null : object(value, what));

/** A JSON array. */
export function list(value, what) {
  check(Array.isArray(value), `${what} is not a list`);
  return value;
}

const isObject = (value) => typeof value === "object" && value !== null && Object.getPrototypeOf(value) === null;

const shown = (value) => (JSON.stringify(value) ?? "missing").slice(0, 40);
