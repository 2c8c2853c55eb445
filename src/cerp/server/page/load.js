// A .cerp file ready for what it is for, as cerp.load does in Python.

import { decodeFile } from "./format.js";
import { Limits } from "./limits.js";
import { FieldLookups, Lookup } from "./lookup.js";
import { Model } from "./model.js";

/**
 * @param {ArrayBuffer} bytes the content of a .cerp file; `maxMemory`: what it may take, 2 GiB unless told otherwise
 * @returns {Promise<Model | Lookup | FieldLookups>} what recommends; vectors by id; or such lookups by the names of fields
 */
export async function load(bytes, { maxMemory } = {}) {
  const limits = new Limits(bytes.byteLength, maxMemory);
  const file = await decodeFile(bytes);
  if (file.fields) return new FieldLookups(file, limits);
  return file.isLookup ? new Lookup(file, limits) : Model.of(file, limits);
}
