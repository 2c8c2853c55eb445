// JSON as strictly as the decoder in Python reads it: no key twice, not too deep, finite numbers, whole characters.

import { check } from "./fields.js";

const DEEPEST = 32; // Levels below the outermost.
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const CONSTANTS = { true: true, false: false, null: null };

/** A number that is written with a point or an exponent, so that it is no count; it calculates as any other. */
export class Decimal extends Number {}

/** Text of UTF-8, which must be nothing else; a byte order mark is a character. */
export function utf8(bytes, what) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    check(false, `${what} is not UTF-8`);
  }
}

/** Whether a text holds half a surrogate pair, which is no character. */
export const isBroken = (text) => /\p{Surrogate}/u.test(text);

/** An object of JSON. Objects have no prototype: what was not written is not there. */
export function parseObject(text, what) {
  const found = new Parser(text, what).whole();
  check(typeof found === "object" && found !== null && Object.getPrototypeOf(found) === null, `${what} is no object`);
  return found;
}

class Parser {
  #text;
  #what;
  #at = 0;

  constructor(text, what) {
    this.#text = text;
    this.#what = what;
  }

  whole() {
    const value = this.#value(0);
    this.#check(this.#next() === undefined);
    return value;
  }

  #check(holds, problem = "cannot be read") {
    check(holds, `${this.#what} ${problem}`);
  }

  /** The next sign that is no space; it stays where it is. */
  #next() {
    while (" \t\n\r".includes(this.#text[this.#at] ?? "end")) this.#at += 1;
    return this.#text[this.#at];
  }

  /** Whether `sign` comes next; if so it is passed. */
  #takes(sign) {
    if (this.#next() !== sign) return false;
    this.#at += 1;
    return true;
  }

  #value(depth) {
    this.#check(depth <= DEEPEST, `is nested more than ${DEEPEST} deep`);
    if (this.#takes("{")) return this.#object(depth);
    if (this.#takes("[")) return this.#array(depth);
    if (this.#next() === '"') return this.#string();
    for (const [word, value] of Object.entries(CONSTANTS)) {
      if (!this.#text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return value;
    }
    return this.#number();
  }

  #object(depth) {
    const found = Object.create(null);
    if (this.#takes("}")) return found;
    do {
      this.#check(this.#next() === '"');
      const key = this.#string();
      this.#check(!(key in found), "has a key twice");
      this.#check(this.#takes(":"));
      found[key] = this.#value(depth + 1);
    } while (this.#takes(","));
    this.#check(this.#takes("}"));
    return found;
  }

  #array(depth) {
    const found = [];
    if (this.#takes("]")) return found;
    do found.push(this.#value(depth + 1));
    while (this.#takes(","));
    this.#check(this.#takes("]"));
    return found;
  }

  #string() {
    const start = this.#at++;
    while (this.#at < this.#text.length && this.#text[this.#at] !== '"') this.#at += this.#text[this.#at] === "\\" ? 2 : 1;
    this.#at += 1;
    try {
      const found = JSON.parse(this.#text.slice(start, this.#at));
      this.#check(!isBroken(found), "holds half a character");
      return found;
    } catch {
      this.#check(false);
    }
  }

  #number() {
    NUMBER.lastIndex = this.#at;
    const [written, fraction, exponent] = NUMBER.exec(this.#text) ?? [];
    this.#check(written !== undefined);
    this.#at += written.length;
    const value = Number(written);
    this.#check(Number.isFinite(value), "holds a number that is too large");
    return fraction ?? exponent ? new Decimal(value) : value;
  }
}
