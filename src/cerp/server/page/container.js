// The outer shell of a .cerp file: length, header, checksum, and where each tensor lies.

import { check, count, list, object } from "./fields.js";
import { parseObject, utf8 } from "./json.js";

export { FileError, check, count } from "./fields.js";

const FORMAT = 1;
const MAX_HEADER_BYTES = 1 << 20;
const CHECKSUM_MARK = new TextEncoder().encode('\\"crc32\\":\\"');

/** Bytes of one number. */
export const BYTES_OF = { F32: 4, F16: 2, I8: 1, U8: 1 };

/** Tensors by name; each is taken once, so that what is left over was not known. */
class Tensors extends Map {
  take(name) {
    const found = this.get(name);
    check(found, `the part ${name} is missing`);
    this.delete(name);
    return found;
  }

  /** One of a type, with one dimension; any length unless it is given. */
  array(name, dtype, length = null) {
    const found = this.take(name);
    check(found.dtype === dtype, `${name} are ${found.dtype}, not ${dtype}`);
    const fits = found.shape.length === 1 && (length === null || found.shape[0] === length);
    check(fits, `the part ${name} has the wrong length`);
    return found;
  }
}

/** The metadata of a file, and its tensors; everything is checked against the file's size. */
export function readContainer(file) {
  check(file.length >= 8, "it is shorter than 8 bytes");
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const headerBytes = Number(view.getBigUint64(0, true));
  check(headerBytes <= MAX_HEADER_BYTES && headerBytes <= file.length - 8, "it is cut off, or no .cerp file at all");
  checkChecksum(file, headerBytes);
  const header = parseObject(utf8(file.subarray(8, 8 + headerBytes), "its header"), "its header");
  const written = header.__metadata__ && object(header.__metadata__, "its metadata").cerp;
  check(typeof written === "string", "it has no metadata");
  const metadata = parseObject(written, "its metadata");
  check(metadata.format === FORMAT, `its format is ${metadata.format}, this page reads ${FORMAT}; update cerp`);
  delete header.__metadata__;
  const payload = file.subarray(8 + headerBytes);
  const tensors = new Tensors();
  let end = 0;
  for (const { name, dtype, shape, offsets } of placed(header)) {
    const bytes = shape.reduce((product, length) => product * length, BYTES_OF[dtype]);
    check(offsets[0] === end && offsets[1] === end + bytes, `the part ${name} is not where it should be`);
    end = offsets[1];
    check(end <= payload.length, "it is cut off");
    tensors.set(name, { dtype, shape, bytes: payload.subarray(offsets[0], end) });
  }
  check(end === payload.length, "it is longer than its parts");
  return { metadata, tensors };
}

/** What the header says of the tensors, in the order in which they lie. */
function placed(header) {
  const entries = Object.entries(header).map(([name, entry]) => {
    const { dtype, shape, data_offsets: offsets } = object(entry, `the part ${name}`);
    check(typeof dtype === "string" && Object.hasOwn(BYTES_OF, dtype), `the part ${name} is ${dtype}`);
    check(sizes(offsets, name).length === 2, `the part ${name} is nowhere`);
    check(sizes(shape, name).length <= 2, `the part ${name} has too many dimensions`);
    return { name, dtype, shape, offsets };
  });
  return entries.sort((a, b) => a.offsets[0] - b.offsets[0] || a.offsets[1] - b.offsets[1]);
}

/** Lengths or places of a file that any machine can hold. */
function sizes(values, name) {
  for (const value of list(values, name)) count(value, name, { largest: 2 ** 48 - 1 });
  return values;
}

function checkChecksum(file, headerBytes) {
  const header = file.subarray(8, 8 + headerBytes);
  const mark = header.findIndex((_, at) => CHECKSUM_MARK.every((byte, offset) => header[at + offset] === byte));
  check(mark >= 0, "it has no checksum");
  const start = 8 + mark + CHECKSUM_MARK.length;
  const stated = new TextDecoder().decode(file.subarray(start, start + 8));
  const found = crc32(file, start).toString(16).padStart(8, "0");
  check(stated === found, "its checksum is wrong; fetch it again");
}

/** CRC-32 of zlib, with the eight bytes from `hole` on taken as "0". */
function crc32(bytes, hole) {
  const table = new Uint32Array(256).map((_, byte) => {
    for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
    return byte;
  });
  let crc = 0xffffffff;
  for (let at = 0; at < bytes.length; at++) {
    const byte = at >= hole && at < hole + 8 ? 0x30 : bytes[at];
    crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff];
  }
  return ~crc >>> 0;
}
