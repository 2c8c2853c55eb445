// The outer shell of a .cerp file: length, header, checksum, and where each tensor lies.

const FORMAT = 1;
const MAX_HEADER_BYTES = 1 << 20;
const CHECKSUM_MARK = new TextEncoder().encode('\\"crc32\\":\\"');

/** Bytes of one number. */
export const BYTES_OF = { F32: 4, F16: 2, I8: 1, U8: 1 };

/** A file that cannot be used, and why. */
export class FileError extends Error {
  constructor(problem) {
    super(`This is not a usable model file: ${problem}.`);
  }
}

export function check(holds, problem) {
  if (!holds) throw new FileError(problem);
}

/** A count in the header: a natural number. */
export function count(value, what) {
  check(Number.isSafeInteger(value) && value >= 0, `the number of ${what} is ${value}`);
  return value;
}

/** Tensors by name; each is taken once, so that what is left over was not known. */
class Tensors extends Map {
  take(name) {
    const found = this.get(name);
    check(found, `the part ${name} is missing`);
    this.delete(name);
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
  let header, metadata;
  try {
    header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + headerBytes)));
    metadata = JSON.parse(header.__metadata__.cerp);
  } catch {
    check(false, "its header cannot be read");
  }
  check(metadata.format === FORMAT, `its format is ${metadata.format}, this page reads ${FORMAT}; update cerp`);
  delete header.__metadata__;
  const payload = file.subarray(8 + headerBytes);
  const tensors = new Tensors();
  let end = 0;
  const entries = Object.entries(header).sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0] || a.data_offsets[1] - b.data_offsets[1]);
  for (const [name, { dtype, shape, data_offsets: offsets }] of entries) {
    const bytes = shape.reduce((product, length) => product * count(length, name), BYTES_OF[dtype]);
    check(offsets[0] === end && offsets[1] === end + bytes, `the part ${name} is not where it should be`);
    end = offsets[1];
    check(end <= payload.length, "it is cut off");
    tensors.set(name, { dtype, shape, bytes: payload.subarray(offsets[0], end) });
  }
  check(end === payload.length, "it is longer than its parts");
  return { metadata, tensors };
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
