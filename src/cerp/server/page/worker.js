// Runs the model beside the page: one message in, one message out.

import { load } from "./load.js";
import { FieldLookups } from "./lookup.js";
import { Model } from "./model.js";

let model;
let lookups; // By the name of a field; "" where there is one table.

const methods = {
  async load(url) {
    const started = performance.now();
    const response = await fetch(url);
    if (!response.ok) throw new Error(`The model could not be fetched: the server answered ${response.status}.`);
    const copy = response.clone();
    const file = await response.arrayBuffer();
    const fetched = performance.now();
    model = await Model.decode(file);
    const ready = performance.now();
    // Here and not in the service worker, which may not be in charge yet; for service-worker.js to find.
    if ("caches" in self) await (await caches.open("cerp")).put(url, copy);
    return { bytes: file.byteLength, fetchMs: fetched - started, decodeMs: ready - fetched };
  },
  search: (kind, text, limit) => model.search(kind, text, limit),
  history: (user) => model.history(user),
  recommend: (user, options) => model.recommend(user, options),
  similar: (item, k) => model.similarItems(item, k),
  recommendFor: (liked, options) => model.recommendFor(liked, options),
  async open(file) {
    const opened = await load(file);
    if (opened instanceof Model) throw new Error("This file recommends: `cerp serve` shows it. Here, files of vectors open.");
    lookups = opened instanceof FieldLookups ? opened : new Map([["", opened]]);
    return { dim: opened.dim, fields: Array.from(lookups, ([name, { ids }]) => ({ name, length: ids.length })) };
  },
  searchIds: (field, text, limit) => lookups.get(field).search(text, limit),
  nearest: (field, id, k) => lookups.get(field).nearest(id, k),
  vector: (field, id) => lookups.get(field).vectors([id])[0],
};

onmessage = async ({ data: { id, method, values } }) => {
  try {
    postMessage({ id, result: await methods[method](...values) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
