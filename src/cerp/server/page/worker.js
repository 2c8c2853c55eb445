// Runs the model beside the page: one message in, one message out.

import { Model } from "./model.js";

let model;

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
};

onmessage = async ({ data: { id, method, values } }) => {
  try {
    postMessage({ id, result: await methods[method](...values) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};
