// A text field that offers what a search finds (the ARIA combobox pattern).

const PAUSE_MS = 120; // Type on within this time, and the search waits.

/**
 * Give `input` a list of suggestions.
 * @param {HTMLInputElement} input
 * @param {(text: string) => Promise<{id: string, title: ?string}[]>} search
 * @param {(entry: {id: string, title: ?string}) => void} choose called for a chosen suggestion
 * @param {(text: string) => void} miss called when Enter finds nothing to choose
 */
export function combobox(input, search, choose, miss) {
  const list = document.createElement("ul");
  list.id = `${input.id}-options`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", input.labels[0].textContent);
  input.after(list);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  let entries = [];
  let active = -1;
  let latest = 0;
  show([]);

  function show(found) {
    entries = found;
    list.replaceChildren(
      ...found.map((entry, index) => {
        const option = document.createElement("li");
        option.id = `${list.id}-${index}`;
        option.setAttribute("role", "option");
        option.append(...nameOf(entry));
        // Before the field loses focus, which closes the list.
        option.addEventListener("pointerdown", (event) => event.preventDefault());
        option.addEventListener("click", () => take(index));
        return option;
      }),
    );
    list.hidden = found.length === 0;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(-1);
  }

  function mark(index) {
    active = index;
    [...list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === index)));
    input.setAttribute("aria-activedescendant", index < 0 ? "" : list.children[index].id);
    list.children[index]?.scrollIntoView({ block: "nearest" });
  }

  function take(index) {
    const entry = entries[index];
    close();
    choose(entry);
  }

  /** Enter without a choice: what is called just so, else the first suggestion, else say why not. */
  async function takeFirst() {
    const text = input.value.trim();
    close();
    const own = ++latest;
    const found = await search(text).catch(() => []);
    if (own !== latest) return;
    const entry = found.find(({ id, title }) => id === text || title === text) ?? found[0];
    if (entry) choose(entry);
    else miss(text);
  }

  function close() {
    latest += 1; // An answer that is still on its way is no longer wanted.
    show([]);
  }

  async function offer() {
    const own = ++latest;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    if (own !== latest) return;
    const found = await search(input.value).catch(() => []);
    if (own === latest) show(found);
  }

  input.addEventListener("input", offer);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && list.hidden) offer();
    else if (event.key === "ArrowDown") mark((active + 1) % entries.length);
    else if (event.key === "ArrowUp" && !list.hidden) mark((active <= 0 ? entries.length : active) - 1);
    else if (event.key === "Enter" && active >= 0) take(active);
    else if (event.key === "Enter" && input.value.trim()) takeFirst();
    else if (event.key === "Escape" && !list.hidden) close();
    else return;
    event.preventDefault();
  });
}

/** A title with its id beside it, or the id alone. Text nodes only: titles are anyone's text. */
export function nameOf({ id, title }) {
  if (!title) return [document.createTextNode(id)];
  const small = document.createElement("small");
  small.textContent = ` ${id}`;
  return [document.createTextNode(title), small];
}
