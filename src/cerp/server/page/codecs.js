// How numbers are packed: deflated bytes, bit planes, number lists, short floats and integers.

import { BYTES_OF, check, count } from "./container.js";

/** The content of a deflated tensor: `length` bytes, and never more. */
export async function inflate(tensors, name, length) {
  const { bytes } = tensors.array(name, "U8");
  check(count(length, name) <= 16 * bytes.length + 16, `the part ${name} promises too much`);
  const content = new Uint8Array(length);
  let at = 0;
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  try {
    for (let piece; !(piece = await reader.read()).done; at += piece.value.length) {
      content.set(piece.value, at); // Throws when there is no room.
    }
  } catch {
    reader.cancel().catch(() => {}); // What is left of a stream that is too long, or broken.
    check(false, `the part ${name} is damaged`);
  }
  check(at === length, `the part ${name} is shorter than it should be`);
  return content;
}

/** Adds 2^b to values[i] for each set bit: bit b of every number with more than b bits, plane by plane. */
export function addBitPlanes(name, { bytes }, widths, values, power) {
  const bits = widths.reduce((sum, width) => sum + width, 0);
  check(bytes.length === Math.ceil(bits / 8), `the part ${name} has the wrong length`);
  const planes = widths.reduce((most, width) => Math.max(most, width), 0);
  let at = 0;
  for (let plane = 0; plane < planes; plane++) {
    for (let i = 0; i < widths.length; i++) {
      if (widths[i] <= plane) continue;
      if ((bytes[at >> 3] >> (at & 7)) & 1) values[i] += power(plane);
      at += 1;
    }
  }
}

/** A number list; as BigInt where a number does not fit into a double. */
export async function numberList(tensors, name, length) {
  const classes = await inflate(tensors, `${name}.classes`, length);
  const largest = classes.reduce((most, one) => Math.max(most, one), 0);
  check(largest <= 243, `the part ${name} has a number that is too large`);
  const isBig = largest >= 4 * 50;
  const whole = isBig ? BigInt : Number;
  const power = isBig ? (exponent) => 1n << BigInt(exponent) : (exponent) => 2 ** exponent;
  const values = new (isBig ? BigUint64Array : Float64Array)(length);
  classes.forEach((one, i) => (values[i] = whole(4 + (one % 4)) * power(one >> 2) - whole(4)));
  addBitPlanes(name, tensors.array(`${name}.extra`, "U8"), classes.map((one) => one >> 2), values, power);
  return values;
}

/** Finite numbers, as float32: which holds 16-bit floats exactly. */
export function floats({ dtype, bytes }) {
  check(dtype === "F32" || dtype === "F16", `numbers are ${dtype}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = BYTES_OF[dtype];
  const read = dtype === "F32" ? (at) => view.getFloat32(at, true) : (at) => half(view.getUint16(at, true));
  const numbers = Float32Array.from({ length: bytes.length / size }, (_, i) => read(i * size));
  check(numbers.every(Number.isFinite), "it holds numbers that are not finite");
  return numbers;
}

/** A 16-bit float: 1 bit of sign, 5 of exponent, 10 of fraction. */
export function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size = exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
  return (bits >> 15 ? -1 : 1) * (exponent === 31 ? Infinity : size);
}

/** The values of int8. */
export const signedBytes = ({ bytes }) => new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);

/** The values of int4: the low half of a byte first. */
export function signedNibbles({ bytes }, stored) {
  return Int8Array.from({ length: stored }, (_, i) => ((bytes[i >> 1] >> (4 * (i & 1))) << 28) >> 28);
}
