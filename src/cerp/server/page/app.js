// The page: asks whom to recommend for, asks a backend, shows what comes.

import { Browser, Server } from "./backends.js";
import { drawBytes, readable } from "./bytes.js";
import { combobox, nameOf } from "./combobox.js";

const K = 10;
const HISTORY_SHOWN = 100;
const MODEL_FILE = "model.cerp";
const PREFERENCE = "cerp-in-browser";

const at = (id) => document.getElementById(id);
const server = new Server();
let browser = null; // A promise, from when the model was first wanted here.
const card = server.card();
let liked = [];
let newest = 0;

const backend = async () => (at("in-browser").checked && browser) || server;
const mode = () => new FormData(at("ask")).get("mode");
const milliseconds = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;

/** Before anything has been asked of the server: what someone does at once must not get lost. */
function listen() {
  combobox(at("user"), async (text) => (await backend()).search("users", text), ({ id }) => {
    at("user").value = id;
    refresh();
  });
  combobox(at("item"), async (text) => (await backend()).search("items", text), (item) => {
    at("item").value = "";
    if (!liked.some(({ id }) => id === item.id)) liked.push(item);
    refresh();
  });
  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    refresh();
  });
  at("ask").addEventListener("change", (event) => event.target.name === "mode" && refresh());
  at("any-user").addEventListener("click", anyUser);
  at("in-browser").addEventListener("change", changePlace);
}

async function start() {
  const { name, backbone, users, items, takes_liked_items: takesLikedItems } = await card;
  document.title = `${name} · cerp`;
  const whom = users ? `${users.toLocaleString("en")} users, ` : "";
  const sizes = `${whom}${items.toLocaleString("en")} items`;
  at("about").textContent = `${name} · ${backbone} · ${sizes}`;
  drawBytes(await card, at("file-summary"), at("file-bars"));
  if (!takesLikedItems) {
    const taste = document.querySelector("[value=taste]");
    taste.disabled = true;
    taste.parentElement.title = "This model cannot recommend from liked items alone.";
  }
  if (!users) {
    const known = document.querySelector("[value=user]");
    known.disabled = true;
    known.parentElement.title = "This file holds items and no users.";
    document.querySelector("[value=taste]").checked = true;
    await refresh();
  }
  if (localStorage.getItem(PREFERENCE) === "yes") {
    at("in-browser").checked = true;
    await changePlace();
  }
  if (users && !at("user").value) await anyUser();
}

async function anyUser() {
  const before = at("user").value;
  try {
    const found = await (await backend()).search("users", "");
    // Someone has typed meanwhile, or is about to.
    if (at("user").value !== before || document.activeElement === at("user")) return;
    if (!found.length) return;
    at("user").value = found[Math.floor(Math.random() * found.length)].id;
  } catch (error) {
    showError(error);
    return;
  }
  await refresh();
}

/** The switch: on, the file is fetched and decoded here, once. */
async function changePlace() {
  const wanted = at("in-browser").checked;
  localStorage.setItem(PREFERENCE, wanted ? "yes" : "no");
  try {
    if (wanted) await (browser ??= loadHere());
  } catch (error) {
    browser = null;
    at("browser-start").textContent = "failed";
    at("in-browser").checked = false;
    localStorage.setItem(PREFERENCE, "no");
    showError(error);
    return;
  }
  if (at("user").value || liked.length) await refresh();
}

async function loadHere() {
  at("browser-start").textContent = "loading…";
  const loaded = new Browser();
  const { bytes, fetchMs, decodeMs } = await loaded.load(MODEL_FILE);
  at("browser-start").textContent =
    `${readable(bytes)}: fetched in ${milliseconds(fetchMs)}, ready in ${milliseconds(decodeMs)}`;
  return loaded;
}

/** Ask again and show it, unless another question has come up meanwhile. */
async function refresh() {
  const own = ++newest;
  const taste = mode() === "taste";
  at("user-panel").hidden = taste;
  at("taste-panel").hidden = !taste;
  showChips();
  const user = at("user").value.trim();
  const isNobody = taste && liked.length === 0;
  const knowsPopular = isNobody && (await card).knows_popular_items;
  if (own !== newest) return;
  if (isNobody ? !knowsPopular : !taste && user === "") {
    showHistory(null);
    show([], taste ? "Nothing chosen yet." : "Type a user id.");
    return;
  }
  at("recommendations").classList.add("stale");
  try {
    const [place, { has_history: hasHistory }] = await Promise.all([backend(), card]);
    const started = performance.now();
    const items = taste
      ? await place.recommendFor(liked.map(({ id }) => id), K)
      : await place.recommend(user, K, hasHistory);
    const took = performance.now() - started;
    const received = server.received;
    const history = !taste && hasHistory ? await place.history(user) : null;
    if (own !== newest) return;
    showTime(place, took, received);
    showHistory(history);
    const whose = isNobody ? "popular items" : `items for ${taste ? "this taste" : `user ${user}`}`;
    show(items, `${items.length} ${whose}, computed ${place === server ? "by the server" : "in this browser"}.`);
  } catch (error) {
    if (own === newest) showError(error);
  }
}

function show(items, status) {
  at("error").hidden = true;
  at("status").textContent = status;
  const best = Math.max(...items.map(({ score }) => score));
  const worst = Math.min(0, ...items.map(({ score }) => score));
  at("recommendations").classList.remove("stale");
  at("recommendations").replaceChildren(
    ...items.map((item) => {
      const row = document.createElement("li");
      const name = Object.assign(document.createElement("span"), { className: "name" });
      name.append(...nameOf(item));
      const score = Object.assign(document.createElement("span"), { className: "score" });
      score.textContent = item.score.toPrecision(4);
      const bar = Object.assign(document.createElement("meter"), { min: worst, max: best, value: item.score });
      bar.setAttribute("aria-hidden", "true"); // The score says the same.
      row.append(name, score, bar);
      return row;
    }),
  );
}

function showHistory(history) {
  at("history").hidden = !history;
  if (!history) return;
  const shown = history.items.slice(0, HISTORY_SHOWN);
  at("history-count").textContent =
    history.total > shown.length ? `${shown.length} of ${history.total.toLocaleString("en")}` : `${history.total}`;
  at("history-list").replaceChildren(
    ...shown.map((item) => {
      const entry = document.createElement("li");
      entry.append(...nameOf(item));
      return entry;
    }),
  );
}

function showChips() {
  at("taste-hint").hidden = liked.length > 0;
  at("chips").replaceChildren(
    ...liked.map((item) => {
      const entry = document.createElement("li");
      const button = Object.assign(document.createElement("button"), { type: "button" });
      const name = Object.assign(document.createElement("span"), { textContent: item.title ?? item.id });
      button.append(name);
      button.setAttribute("aria-label", `Remove ${item.title ?? item.id}`);
      button.addEventListener("click", () => {
        liked = liked.filter(({ id }) => id !== item.id);
        at("item").focus();
        refresh();
      });
      entry.append(button);
      return entry;
    }),
  );
}

function showTime(place, took, received) {
  if (place === server) at("server-time").textContent = `${milliseconds(took)}, ${readable(received)}`;
  else at("browser-time").textContent = `${milliseconds(took)}, nothing sent`;
}

function showError(error) {
  show([], "");
  showHistory(null);
  at("error").textContent = error.message;
  at("error").hidden = false;
}

// Keeps the page and the model for when there is no connection; browsers allow it on https and localhost.
navigator.serviceWorker?.register("service-worker.js");
listen();
start().catch(showError);
