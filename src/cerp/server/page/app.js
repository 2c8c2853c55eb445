// The page: asks whom to recommend for, asks a backend, shows what comes.

import { Browser, Server } from "./backends.js";
import { drawBytes, readable } from "./bytes.js";
import { combobox, nameOf } from "./combobox.js";
import { listenForFiles } from "./lookup-view.js";

const EXAMPLES = 6;
const LEAST_BAR = 0.15; // Of the longest bar: the last item of a list has one too.
const HISTORY_SHOWN = 100;
const MODEL_FILE = "model.cerp";
const PREFERENCE = "cerp-in-browser";

const at = (id) => document.getElementById(id);
const server = new Server();
let browser = null; // A promise, from when the model was first wanted here.
const card = server.card();
let liked = [];
let newest = 0;
let similarTo = null; // The item whose neighbours are shown in place of recommendations.

const backend = async () => (at("in-browser").checked && browser) || server;
const mode = () => new FormData(at("ask")).get("mode");
const amount = () => Math.min(1000, Math.max(1, Math.round(Number(at("amount").value)) || 10));
const milliseconds = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;

/** Before anything has been asked of the server: what someone does at once must not get lost. */
function listen() {
  const searching = (kind) => async (text) => (await backend()).search(kind, text);
  const missing = (what) => (text) => showError(new Error(`There is no ${what} “${text}”, and none that starts like it.`));
  combobox(at("user"), searching("users"), ({ id }) => {
    at("user").value = id;
    ask();
  }, missing("user"));
  combobox(at("item"), searching("items"), like, missing("item"));
  at("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  at("ask").addEventListener("change", (event) => event.target.name === "mode" && ask());
  at("amount").addEventListener("change", refresh);
  at("any-user").addEventListener("click", anyUser);
  at("in-browser").addEventListener("change", changePlace);
}

/** A question about someone: no item is looked at any more. */
function ask() {
  similarTo = null;
  return refresh();
}

function like(item) {
  at("item").value = "";
  if (!liked.some(({ id }) => id === item.id)) liked.push(item);
  ask();
}

async function start() {
  const { name, backbone, users, items, takes_liked_items: takesLikedItems, can_download: canDownload } = await card;
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
  if (canDownload === false) {
    at("in-browser").disabled = true;
    at("in-browser").parentElement.title = "This server does not hand out its file.";
  } else if (localStorage.getItem(PREFERENCE) === "yes") {
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
  await ask();
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
  const isNobody = !similarTo && taste && liked.length === 0;
  const knowsPopular = isNobody && (await card).knows_popular_items;
  if (own !== newest) return;
  if (isNobody && knowsPopular) showExamples();
  if (isNobody ? !knowsPopular : !similarTo && !taste && user === "") {
    showHistory(null);
    if (taste) showExamples();
    show([], taste ? "Nothing chosen yet." : "Type a user id.");
    return;
  }
  at("recommendations").classList.add("stale");
  try {
    const [place, { has_history: hasHistory, excludes_seen: excludesSeen }] = await Promise.all([backend(), card]);
    const started = performance.now();
    let items;
    if (similarTo) items = await place.similar(similarTo.id, amount());
    else if (taste) items = await place.recommendFor(liked.map(({ id }) => id), amount());
    else items = await place.recommend(user, amount(), excludesSeen ?? hasHistory);
    const took = performance.now() - started;
    const received = server.received;
    const history = !taste && !similarTo && hasHistory ? await place.history(user) : null;
    if (own !== newest) return;
    showTime(place, took, received);
    showHistory(history);
    const asked = isNobody ? "that are popular" : taste ? "for this taste" : `for user ${user}`;
    const whom = similarTo ? `like ${similarTo.title ?? similarTo.id}` : asked;
    show(items, `${items.length} items ${whom}, computed ${place === server ? "by the server" : "in this browser"}.`);
  } catch (error) {
    if (own === newest) showError(error);
  }
}

function show(items, status) {
  at("error").hidden = true;
  at("status").textContent = status;
  // Scores mean nothing but their order: bars show the differences within the list.
  const best = Math.max(...items.map(({ score }) => score));
  const worst = Math.min(...items.map(({ score }) => score));
  const zero = best > worst ? worst - (best - worst) * LEAST_BAR : worst - 1;
  at("recommendations").classList.remove("stale");
  at("recommendations").replaceChildren(
    ...items.map((item) => {
      const row = document.createElement("li");
      const name = Object.assign(document.createElement("span"), { className: "name" });
      name.append(...nameOf(item));
      const score = Object.assign(document.createElement("span"), { className: "score" });
      score.textContent = item.score.toPrecision(4);
      const bar = Object.assign(document.createElement("meter"), { min: zero, max: best, value: item.score });
      bar.setAttribute("aria-hidden", "true"); // The score says the same.
      row.append(name, score, similarButton(item), bar);
      return row;
    }),
  );
}

function similarButton(item) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "link similar" });
  button.textContent = "Similar";
  button.setAttribute("aria-label", `Items like ${item.title ?? item.id}`);
  button.addEventListener("click", () => {
    similarTo = item;
    refresh();
  });
  return button;
}

/** Some items to begin a taste with: the first ones, for whoever knows none by name. */
async function showExamples() {
  const found = await (await backend()).search("items", "").catch(() => []);
  at("examples").replaceChildren(
    ...found.slice(0, EXAMPLES).map((item) => {
      const entry = document.createElement("li");
      const button = Object.assign(document.createElement("button"), { type: "button" });
      button.textContent = item.title ?? item.id;
      button.addEventListener("click", () => like(item));
      entry.append(button);
      return entry;
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
  at("taste-hint").hidden = at("examples").hidden = liked.length > 0;
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
        ask();
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
listenForFiles();
start().catch(showError);
