// Tables: rows of views under headings. Values go in as text; a table whose rows are the same stays as it is.

function cell(name, { kind = "", scope } = {}, value) {
  const made = document.createElement(name);
  if (scope) made.scope = scope;
  if (kind) made.className = kind;
  if (value instanceof Node) made.append(value);
  else made.textContent = value;
  return made;
}

/**
 * Fills a table. `columns` are `{title, of(row), kind}`: the first one names its row. Without rows it says `empty`.
 */
export function fill(id, columns, rows, empty) {
  const table = document.getElementById(id);
  const state = JSON.stringify([rows, rows.length ? "" : empty]);
  if (table.dataset.state === state) return;
  table.dataset.state = state;
  table.dataset.rows = String(rows.length);
  if (rows.length === 0) {
    const caption = document.createElement("caption");
    caption.textContent = empty;
    table.replaceChildren(caption);
    return;
  }
  const head = document.createElement("thead");
  const titles = document.createElement("tr");
  titles.append(...columns.map(({ title, kind }) => cell("th", { kind, scope: "col" }, title)));
  head.append(titles);
  const body = document.createElement("tbody");
  for (const row of rows) {
    const line = document.createElement("tr");
    columns.forEach(({ of, kind, tone }, order) => {
      const classes = [kind, tone?.(row)].filter(Boolean).join(" ");
      line.append(cell(order ? "td" : "th", { kind: classes, scope: order ? undefined : "row" }, of(row)));
    });
    body.append(line);
  }
  table.replaceChildren(head, body);
}

/** A part of the largest, beside its figure. */
export function bar(value, most, words) {
  const whole = document.createElement("span");
  const meter = document.createElement("meter");
  meter.max = most > 0 ? most : 1;
  meter.value = typeof value === "number" ? value : 0;
  meter.setAttribute("aria-hidden", "true");
  whole.append(meter, words);
  return whole;
}
