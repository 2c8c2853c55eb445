// Two places that answer the page's questions, with the same methods: the server and this browser.

const SEARCH_RESULTS = 20;

/** Asks over HTTP. */
export class Server {
  /** Bytes of the last answer. */
  received = 0;

  card() {
    return this.#get("model", {});
  }

  async search(kind, text) {
    return (await this.#get(kind, { query: text })).found.slice(0, SEARCH_RESULTS);
  }

  history(user) {
    return this.#get("history", { user });
  }

  async recommend(user, k, excludeSeen) {
    return (await this.#get("recommend", { user, k, exclude_seen: excludeSeen })).items;
  }

  async recommendFor(liked, k) {
    const body = JSON.stringify({ liked, k });
    const headers = { "Content-Type": "application/json" };
    return (await this.#ask("recommend", { method: "POST", headers, body })).results[0].items;
  }

  async similar(item, k) {
    return (await this.#get("similar", { item, k })).items;
  }

  #get(path, query) {
    return this.#ask(`${path}?${new URLSearchParams(query)}`, {});
  }

  async #ask(path, options) {
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Error("The server cannot be reached. If the model was loaded here before, switch on “Compute in this browser”.");
    }
    const text = await response.text();
    this.received = text.length;
    if (!response.ok) throw new Error(problemIn(text) ?? `The server answered ${response.status}.`);
    return JSON.parse(text, idsAsText);
  }
}

/** Asks model.js, which runs in a worker so that the page stays alive while it computes. */
export class Browser {
  #worker = new Worker("worker.js", { type: "module" });
  #waiting = new Map();
  #asked = 0;

  constructor() {
    this.#worker.onmessage = ({ data: { id, result, error } }) => {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error === undefined) resolve(result);
      else reject(new Error(error));
    };
  }

  /** Fetch and decode the file: how many bytes it has, and how long each of the two took. */
  load(url) {
    return this.#call("load", new URL(url, location.href).href);
  }

  search(kind, text) {
    return this.#call("search", kind, text, SEARCH_RESULTS);
  }

  history(user) {
    return this.#call("history", user);
  }

  recommend(user, k, excludeSeen) {
    return this.#call("recommend", user, { k, excludeSeen });
  }

  similar(item, k) {
    return this.#call("similar", item, k);
  }

  recommendFor(liked, k) {
    return this.#call("recommendFor", liked, { k });
  }

  /** Take a file for lookups: how many numbers its vectors have, and its fields with their lengths. */
  open(file) {
    return this.#call("open", file);
  }

  searchIds(field, text) {
    return this.#call("searchIds", field, text, SEARCH_RESULTS);
  }

  nearest(field, id, k) {
    return this.#call("nearest", field, id, k);
  }

  vector(field, id) {
    return this.#call("vector", field, id);
  }

  /** Let go of the file, and of every question that has no answer yet. */
  end() {
    this.#worker.terminate();
  }

  #call(method, ...values) {
    return new Promise((resolve, reject) => {
      const id = ++this.#asked;
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, method, values });
    });
  }
}

// Ids may be integers beyond 2^53, which a JavaScript number cannot hold: keep them as text.
function idsAsText(key, value, context) {
  const isId = key === "id" || key === "user";
  return isId && typeof value === "number" ? (context?.source ?? String(value)) : value;
}

function problemIn(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return undefined;
  }
}
