// The model's bytes, drawn.

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8;

/** 1234567 -> "1.23 MB": three digits, powers of 1000. */
export function readable(bytes) {
  const units = ["bytes", "KB", "MB", "GB"];
  let unit = 0;
  while (bytes >= 999.5 && unit < units.length - 1) {
    bytes /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? bytes : bytes.toPrecision(3)} ${units[unit]}`;
}

/** Fill `summary` and `into` with the file beside the full table, both to one scale, then by section. */
export function drawBytes(card, summary, into) {
  const { total_bytes: file, full_table_bytes: full } = card;
  const ratio = full / file;
  const size = document.createElement("strong");
  size.textContent = readable(file);
  const compared =
    full === 0
      ? ` in all: ${card.sections.graph ? "a graph" : "weights between items"}, and no embedding table at all`
      : ratio >= 1
      ? ` in all, ${ratio >= 9.95 ? Math.round(ratio) : ratio.toFixed(1)} times smaller than the embedding table alone at full size`
      : " in all, more than the embedding table alone at full size";
  summary.replaceChildren(size, compared);

  const scale = Math.max(file, full);
  const sections = Object.entries(card.sections).filter(([, bytes]) => bytes > 0);
  sections.sort(([, first], [, second]) => second - first);
  const parts = sections.map(([name, bytes], index) => ({ name, bytes, className: `part-${Math.min(index, COLOURS - 1)}` }));
  const beside = full && [
    label(`Full table: ${(card.users + card.items).toLocaleString("en")} × ${card.dim} in 32 bits`, readable(full)),
    bar([{ name: "full table", bytes: full, className: "part-whole" }], scale),
    label("This file, to the same scale", readable(file)),
    bar(parts, scale),
  ];
  into.replaceChildren(
    ...(beside || []),
    label("This file, enlarged", `${readable(file)} by section`),
    bar(parts, file),
    legend(parts, file),
  );
}

function label(left, right) {
  const row = document.createElement("p");
  row.className = "bar-label";
  row.append(...[left, right].map((text) => Object.assign(document.createElement("span"), { textContent: text })));
  return row;
}

function bar(parts, scale) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 1 1");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", parts.map(({ name, bytes }) => `${name} ${readable(bytes)}`).join(", "));
  let start = 0;
  for (const { bytes, className } of parts) {
    const rectangle = document.createElementNS(SVG, "rect");
    const width = bytes / scale;
    for (const [name, value] of Object.entries({ x: start, y: 0, width, height: 1, class: className })) {
      rectangle.setAttribute(name, value);
    }
    svg.append(rectangle);
    start += width;
  }
  return svg;
}

function legend(parts, total) {
  const list = document.createElement("ul");
  list.className = "legend";
  for (const { name, bytes, className } of parts) {
    const entry = document.createElement("li");
    const colour = Object.assign(document.createElement("i"), { className });
    const figure = document.createElement("b");
    figure.textContent = `${readable(bytes)} · ${((100 * bytes) / total).toFixed(1)}%`;
    entry.append(colour, name, figure);
    list.append(entry);
  }
  return list;
}
