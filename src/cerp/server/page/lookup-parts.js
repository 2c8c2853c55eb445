// What files for lookups alone have: a projection, and fields. docs/format.md, "Lookups".

import { floats } from "./codecs.js";
import { check, choice, count, decimal, list, object } from "./fields.js";

const LARGEST_WIDTH = 2 ** 16 - 1;
const VALUES_PER_BYTE = 2; // At most: in int4.

/** v = scale · z·M + mean: what composed vectors become. */
export function decodeProjection(tensors, { inputs, outputs, scale: told }) {
  for (const length of [inputs, outputs]) count(length, "the projection", { smallest: 1 });
  const scale = decimal(told, "the scale of the projection", 1e-30, 1e30);
  const matrix = floats(tensors.array("projection.matrix", "F16", inputs * outputs));
  return { inputs, outputs, scale, matrix, mean: floats(tensors.array("projection.mean", "F32", outputs)) };
}

/**
 * Fields by name and ids; `table` (count · columns numbers) where one is stored whole, else null.
 * @param {Function} ids decodes ids as those of items
 * @param {Function} dense decodes a table that is stored whole
 * @param {string[]} codecs of its values
 */
export async function decodeFields(tensors, { list: entries }, numShared, { ids, dense, codecs }) {
  const described = list(entries, "its list of fields").map((entry, number) => field(entry, `fields.${number}`, codecs));
  const shared = described.filter(({ values }) => values === null).reduce((sum, { length }) => sum + length, 0);
  check(shared === numShared, "its fields do not add up");
  const fields = [];
  for (const { prefix, name, length, columns, values, ids: about } of described) {
    let table = null;
    if (values !== null) {
      let bytes = 0;
      for (const [own, tensor] of tensors) if (own.startsWith(`${prefix}.`)) bytes += tensor.bytes.length;
      // Before anything is made of that size: a header alone must not claim memory.
      check(length * columns <= VALUES_PER_BYTE * bytes, `${prefix} claims more numbers than it can hold`);
      table = await dense(tensors, prefix, length, columns, values);
    }
    fields.push({ name, table, columns, ids: await ids(tensors, `${prefix}.ids`, about, length) });
  }
  return fields;
}

function field(entry, prefix, codecs) {
  const { count: written, name, columns, values: codec, ids } = object(entry, prefix);
  const length = count(written, `${prefix}.count`, { smallest: 1 });
  check(typeof name === "string", `${prefix} has no name`);
  object(ids, `${prefix}.ids`);
  if ((codec ?? null) === null) return { prefix, name, length, columns: null, values: null, ids };
  const values = choice(codec, `${prefix}.values`, codecs);
  return { prefix, name, length, columns: count(columns, `${prefix}.columns`, { smallest: 1 }), values, ids };
}

/** What must hold of a file for lookups as a whole; `width`: numbers in a composed vector, `kind` of its own ids. */
export function checkLookup(model, width, kind) {
  const { fields, projection } = model;
  const beside = ["positions", "seen", "titles", "neighbours", "sums", "tastes", "cold", "folding"];
  check(beside.every((part) => model[part] === null) && !model.weights.length, "it has parts that only recommending needs");
  check(model.numUsers === 0, "it has users and nothing to recommend by");
  if (projection) {
    const fits = projection.inputs === width && projection.outputs <= LARGEST_WIDTH;
    check(fits && !fields, "its projection does not fit its vectors");
  }
  if (!fields) return;
  check(kind !== "strings" && model.items.every((id, code) => id === String(code)), "its shared tables have ids of their own");
  check(new Set(fields.map(({ name }) => name)).size === fields.length, "two of its fields have one name");
  check(fields.every(({ table, columns }) => !table || columns === width), "its fields differ in width");
}
