// A file of vectors that someone opens on the page: its ids, and the nearest of each. Nothing is sent anywhere.

import { Browser } from "./backends.js";
import { readable } from "./bytes.js";
import { combobox } from "./combobox.js";

const at = (id) => document.getElementById(id);
const amount = () => Math.min(1000, Math.max(1, Math.round(Number(at("vector-amount").value)) || 10));
let place = null; // The worker that holds the file.
let newest = 0;

/** Take files that are dropped anywhere on the page, or chosen. */
export function listenForFiles() {
  at("vector-file").addEventListener("change", ({ target }) => target.files.length && open(target.files[0]));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) open(event.dataTransfer.files[0]);
  });
  combobox(at("vector-id"), searched, ({ id }) => ask(id), (text) => say(`There is no id “${text}”, and none that starts like it.`, true));
  at("vector-field").addEventListener("change", askFirst);
  at("vector-amount").addEventListener("change", () => ask(at("vector-id").value.trim()));
  at("close-vectors").addEventListener("click", close);
}

const searched = async (text) => (await place.searchIds(at("vector-field").value, text)).map((id) => ({ id, title: null }));

async function open(file) {
  const own = ++newest;
  const worker = new Browser();
  try {
    const { dim, fields } = await worker.open(await file.arrayBuffer());
    if (own !== newest) return worker.end();
    place?.end();
    place = worker;
    at("vector-field").replaceChildren(...fields.map(({ name, length }) => new Option(`${name} (${length.toLocaleString("en")} ids)`, name)));
    at("vector-fields").hidden = fields.length === 1 && fields[0].name === "";
    const ids = fields.reduce((sum, { length }) => sum + length, 0);
    at("vector-about").textContent =
      `${file.name}: ${ids.toLocaleString("en")} vectors of ${dim} numbers in ${readable(file.size)}`;
    at("vector-panel").hidden = false;
    document.querySelector("main").classList.add("of-vectors");
    await askFirst();
  } catch (error) {
    worker.end();
    say(error.message, true);
  }
}

async function askFirst() {
  const [first] = await searched("");
  await ask(first.id);
}

/** Show an id's vector and the ids nearest to it, unless another question has come up meanwhile. */
async function ask(id) {
  const own = ++newest;
  at("vector-id").value = id;
  try {
    const field = at("vector-field").value;
    const [found, vector] = await Promise.all([place.nearest(field, id, amount()), place.vector(field, id)]);
    if (own !== newest) return;
    show(found);
    at("vector-numbers").textContent = Array.from(vector, (value) => value.toPrecision(6)).join(" ");
    say(`${found.length} nearest to ${id}, by the cosine of their vectors.`);
  } catch (error) {
    if (own !== newest) return;
    show([]);
    say(error.message, true);
  }
}

function show(found) {
  at("nearest").replaceChildren(
    ...found.map(({ id, similarity }) => {
      const row = document.createElement("li");
      const name = Object.assign(document.createElement("button"), { type: "button", className: "link name" });
      name.textContent = id;
      name.addEventListener("click", () => ask(id));
      const score = Object.assign(document.createElement("span"), { className: "score" });
      score.textContent = similarity.toFixed(4);
      const bar = Object.assign(document.createElement("meter"), { min: 0, max: 1, value: similarity });
      bar.setAttribute("aria-hidden", "true"); // The score says the same.
      row.append(name, score, bar);
      return row;
    }),
  );
}

function say(text, isError = false) {
  at("vector-status").hidden = isError;
  at("vector-error").hidden = !isError;
  at(isError ? "vector-error" : "vector-status").textContent = text;
}

function close() {
  newest += 1;
  place.end();
  place = null;
  at("vector-file").value = "";
  for (const id of ["vector-panel", "vector-status", "vector-error"]) at(id).hidden = true;
  document.querySelector("main").classList.remove("of-vectors");
}
