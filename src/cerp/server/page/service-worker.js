// Offline use: everything is asked of the network first, and of what it last gave if there is none.

const CACHE = "cerp";
const MODEL = "model.cerp"; // Kept by worker.js when it is first wanted: not everyone wants it.
const PAGE = [
  "./", "app.js", "backends.js", "bytes.js", "codecs.js", "combobox.js", "container.js", "fields.js", "filter.js", "folding.js", "format.js",
  "icon.svg", "json.js", "limits.js", "load.js", "lookup-parts.js", "lookup-view.js", "lookup.js", "model.js", "neighbours.js",
  "perceptron.js", "ranking.js", "style.css", "vectors.js", "worker.js",
  "model",
];
const urlOf = (path) => new URL(path, self.registration.scope).href;
const pageUrls = new Set(PAGE.map(urlOf));

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(PAGE)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const url = event.request.url.replace(/[?#]*$/, "");
  const isKept = pageUrls.has(url) || url === urlOf(MODEL);
  if (event.request.method === "GET" && isKept) event.respondWith(networkFirst(event.request, url));
});

async function networkFirst(request, url) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok && pageUrls.has(url)) await cache.put(url, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(url);
    if (kept) return kept;
    throw error;
  }
}
