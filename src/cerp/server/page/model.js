// A .cerp file that recommends in the browser. Ranks exactly as cerp.runtime does in Python:
// sums in double precision, a score rounded to float32, equal scores in the order of items.

import { check } from "./fields.js";
import { GraphFilter } from "./filter.js";
import { AlsFoldIn, FoldIn, SummedHistory } from "./folding.js";
import { decodeFile } from "./format.js";
import { Limits } from "./limits.js";
import { Neighbours } from "./neighbours.js";
import { Perceptron } from "./perceptron.js";
import { topK } from "./ranking.js";
import { compose, propagate } from "./vectors.js";

/** Ids are text on the way in and out, also where the model's are integers. */
export class Model {
  #file;
  #columns;
  #userVectors;
  #itemVectors;
  #perceptron = null;
  #filter = null; // By the training graph, or by weights between items.
  #foldIn = null; // Made when it is first needed.
  #userCode;
  #itemCode;
  #popular = null; // The scores of items for someone of whom nothing is known, where the file says them.
  #isCold = new Set(); // Users without training rows: they get the popular items.
  #unseen = new Set(); // Items that training never saw: no list holds them unless asked for.
  #limits;

  /** @param {ArrayBuffer} bytes the content of a .cerp file; `maxMemory`: what it may take, 2 GiB unless told otherwise */
  static async decode(bytes, { maxMemory } = {}) {
    const limits = new Limits(bytes.byteLength, maxMemory);
    return Model.of(await decodeFile(bytes), limits);
  }

  /** The model of a decoded file, unless it takes more than `limits` allow. */
  static of(file, limits) {
    check(!file.isLookup, "it holds vectors for lookups and no recommender");
    limits.refuseModel(file);
    return new Model(file, limits);
  }

  constructor(file, limits) {
    this.#file = file;
    this.#limits = limits;
    this.#userCode = new Map(file.users.map((id, code) => [id, code]));
    this.#itemCode = new Map(file.items.map((id, code) => [id, code]));
    if (file.cold) {
      [this.#isCold, this.#unseen] = [new Set(file.cold.users), new Set(file.cold.items)];
      this.#popular = file.cold.degrees?.map((degree) => -1 / (1 + degree)) ?? null;
    }
    if (file.filter) this.#filter = new GraphFilter(file.filter, file);
    if (file.neighbours) this.#filter = new Neighbours(file.neighbours);
    if (file.head === null) return; // No vectors.
    if (file.propagated) {
      ({ users: this.#userVectors, items: this.#itemVectors, columns: this.#columns } = file.propagated);
    } else {
      const composed = compose(file);
      const { vectors, columns } = file.layers ? propagate(composed, file) : composed;
      this.#columns = columns;
      this.#userVectors = vectors.subarray(0, file.usersInTables * columns);
      this.#itemVectors = vectors.subarray(file.usersInTables * columns);
    }
    if (file.head === "tower") this.#perceptron = new Perceptron(file.weights, this.#columns, this.#itemVectors);
  }

  /** The k best items for a user: [{id, title, score}], best first. */
  recommend(user, { k = 10, excludeSeen = true, exclude = [], candidates = null, unseenItems = false } = {}) {
    const code = this.#user(user);
    const seen = excludeSeen ? this.#seen(code) : [];
    return this.#best(this.#scoresOf(code), k, this.#hidden(seen, unseenItems), exclude, candidates);
  }

  /**
   * The same for someone who is not in the model but likes some of its items. Those that training never saw tell
   * nothing of a taste; without any other, it is the popular items.
   */
  recommendFor(liked, { k = 10, excludeSeen = true, exclude = [], candidates = null, unseenItems = false } = {}) {
    const isTower = this.#perceptron !== null;
    if (isTower && liked.length) throw new Error("A tower cannot recommend from liked items alone; use a known user.");
    const codes = Int32Array.from(new Set(liked.map((item) => this.#item(item)))).sort();
    const hidden = this.#hidden(excludeSeen ? codes : [], unseenItems);
    return this.#best(this.#scoresFor(codes.filter((code) => !this.#unseen.has(code))), k, hidden, exclude, candidates);
  }

  /** The k items whose vectors have the largest cosine with that of an item; by a filter alone, its neighbours. */
  similarItems(item, k = 10) {
    const code = this.#item(item);
    const hidden = this.#hidden([code], false);
    if (!this.#itemVectors) return this.#best(this.#filter.scores([code]), k, hidden, [], null);
    const own = this.#vector(this.#itemVectors, code);
    const ownLength = Math.sqrt(dot(own, own, 0));
    const cosines = new Float32Array(this.#file.numItems).map((_, other) => {
      const vector = this.#vector(this.#itemVectors, other);
      const lengths = ownLength * Math.sqrt(dot(vector, vector, 0));
      return lengths ? dot(own, vector, 0) / lengths : 0;
    });
    return this.#best(cosines, k, hidden, [], null);
  }

  /** Scores of given items for a user. */
  score(user, items) {
    const scores = this.#scoresOf(this.#user(user));
    return items.map((item) => scores[this.#item(item)]);
  }

  /** What a user had in training. */
  history(user) {
    const codes = this.#seen(this.#user(user));
    return { user: String(user), total: codes.length, items: Array.from(codes, (code) => this.#named(code)) };
  }

  /**
   * Entries of "users" or "items" for what someone types: first the id or title that is the text,
   * then those that start with it, then titles that contain it; each in native order.
   */
  search(kind, text, limit) {
    const wanted = text.trim().toLowerCase();
    const titles = kind === "items" ? this.#file.titles : null;
    const found = [[], [], []];
    this.#file[kind].forEach((id, code) => {
      const names = titles ? [id.toLowerCase(), titles[code].toLowerCase()] : [id.toLowerCase()];
      if (names.includes(wanted)) found[0].push(code);
      else if (names.some((name) => name.startsWith(wanted))) found[1].push(code);
      else if (names[1]?.includes(wanted)) found[2].push(code);
    });
    return found.flat().slice(0, limit).map((code) => ({ id: this.#file[kind][code], title: titles?.[code] ?? null }));
  }

  #makeFoldIn() {
    const { folding, sums, tastes, numUsers, numItems } = this.#file;
    if (sums) return new SummedHistory(sums, this.#itemVectors, this.#columns);
    this.#limits.refuseFoldIn(numUsers + numItems, this.#columns);
    if (tastes) return FoldIn.ofTastes(tastes, this.#itemVectors, this.#columns);
    if (folding) return new AlsFoldIn(this.#userVectors, this.#itemVectors, this.#columns, folding);
    return FoldIn.ofUsers(this.#userVectors, this.#itemVectors, this.#columns);
  }

  #user(id) {
    if (this.#userCode.size === 0) throw new Error("This file knows items and no users; choose items that you like.");
    const code = this.#userCode.get(String(id));
    if (code === undefined) throw new Error(`unknown user '${id}'`);
    return code;
  }

  #item(id) {
    const code = this.#itemCode.get(String(id));
    if (code === undefined) throw new Error(`unknown item '${id}'`);
    return code;
  }

  #named(code) {
    return { id: this.#file.items[code], title: this.#file.titles?.[code] ?? null };
  }

  #seen(user) {
    const { seen } = this.#file;
    if (!seen) throw new Error("The file does not say what users have seen; pass excludeSeen: false.");
    return seen.items.subarray(seen.offsets[user], seen.offsets[user + 1]);
  }

  #vector(vectors, code) {
    return vectors.subarray(code * this.#columns, (code + 1) * this.#columns);
  }

  #hidden(codes, unseenItems) {
    return unseenItems ? codes : [...codes, ...this.#unseen];
  }

  #popularScores() {
    if (!this.#popular) throw new Error("Name at least one liked item: the file does not say which items are popular.");
    return this.#popular;
  }

  #scoresFor(liked) {
    if (liked.length === 0) return this.#popularScores();
    if (this.#itemVectors) this.#foldIn ??= this.#makeFoldIn();
    return this.#scores(this.#foldIn?.vector(liked), liked);
  }

  #scoresOf(user) {
    if (this.#isCold.has(user)) return this.#popularScores();
    if (this.#file.sums) return this.#scoresFor(this.#seen(user));
    const vector = this.#itemVectors && this.#vector(this.#userVectors, user);
    return this.#scores(vector, this.#filter && this.#seen(user));
  }

  /** Of all items, as float32: by vectors, by the filter, or by both. */
  #scores(vector, history) {
    if (!this.#itemVectors) return this.#filter.scores(history);
    const products = this.#products(vector);
    return this.#filter ? this.#filter.mixed(products, history, this.#file.filter) : products;
  }

  #products(vector) {
    const scores = new Float32Array(this.#file.numItems);
    if (this.#perceptron) this.#perceptron.score(vector, scores);
    else for (let i = 0; i < scores.length; i++) scores[i] = dot(vector, this.#itemVectors, i * this.#columns);
    return scores;
  }

  #best(scores, k, left, exclude, candidates) {
    const allowed = new Uint8Array(scores.length).fill(candidates ? 0 : 1);
    for (const item of candidates ?? []) allowed[this.#item(item)] = 1;
    for (const item of exclude) allowed[this.#item(item)] = 0;
    for (const code of left) allowed[code] = 0;
    return topK(scores, k, allowed).map((code) => ({ ...this.#named(code), score: scores[code] }));
  }
}

function dot(vector, vectors, start) {
  let sum = 0;
  for (let c = 0; c < vector.length; c++) sum += vector[c] * vectors[start + c];
  return sum;
}
