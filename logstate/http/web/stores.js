// Looking a key up in a store.

let stores = new Map();

const shapeOf = kind => kind.endsWith("window") ? "window" : kind === "session" || kind === "versioned" ? kind : "plain";

async function listStores() {
  const {found} = await json("stores");
  const kinds = /^(timestamped_)?(key_value(_lru)?|window)$|^session$|^versioned$/;
  const readable = found.stores.filter(one => kinds.test(one.kind));
  stores = new Map(readable.map(one => [one.name, one]));
  const before = byId("store").value;
  byId("store").replaceChildren(...readable.map(one => Object.assign(make("option", `${one.name} (${one.is_global ? "global" : shapeOf(one.kind) === "plain" ? "by key" : shapeOf(one.kind)})`), {value: one.name})));
  if (stores.has(before)) byId("store").value = before;
  byId("look").classList.toggle("shown", readable.length > 0);
  byId("look").hidden = true;
  ofTheStore();
}

function ofTheStore() {
  const one = stores.get(byId("store").value);
  if (!one) return;
  byId("key").placeholder = one.key.format;
  for (const label of document.querySelectorAll(".of")) label.hidden = !label.dataset.of.split(" ").includes(shapeOf(one.kind));
}

byId("store").addEventListener("change", () => { ofTheStore(); byId("found").replaceChildren(); });

function questionOf(one) {
  const query = new URLSearchParams();
  let key = byId("key").value, isBase64 = byId("base64").checked;
  if (!isBase64 && one.key.format === "string" && [".", "..", "changes"].includes(key)) {
    [key, isBase64] = [btoa(key), true];  // paths have a meaning of their own for these
  }
  if (isBase64) {
    query.set("key", "base64");
    key = key.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }
  for (const label of document.querySelectorAll(".of:not([hidden]) input")) if (label.value.trim()) query.set(label.id, label.value.trim());
  if (byId("partition").value) query.set("partition", byId("partition").value);
  return `stores/${encodeURIComponent(one.name)}/${encodeURIComponent(key)}?${query}`;
}

let asked = null;
const lookUp = asker(byId("found"), "looking …", (status, found) => answerOf(asked, status, found));

byId("look").querySelector("form").addEventListener("submit", event => {
  event.preventDefault();
  asked = stores.get(byId("store").value);
  lookUp(questionOf(asked));
});

const shown = value => typeof value === "string" ? value : JSON.stringify(value);
const TIMES = new Set(["timestamp", "start_ms", "end_ms", "valid_from", "valid_to"]);

function answerOf(one, status, found) {
  const parts = [];
  if (found.error) parts.push(make("p", status === 404 ? found.error : `${status}: ${found.error}`, status === 404 ? "" : "bad"));
  const rows = found.rows ?? (found.row === undefined ? [] : [found.row]);
  if (found.rows && !rows.length) parts.push(make("p", "There are no rows of this key."));
  if (rows.length) parts.push(tableOf(one, rows));
  if (found.partition !== undefined) {
    const holds = Object.entries(found.positions).map(([input, offset]) => `${input} up to ${number.format(offset)}`).join(", ");
    parts.push(make("p", `Partition ${found.partition}, answered by ${found.host || "this instance"}${holds ? `; it holds ${holds}` : ""}.`, "soft"));
  }
  if (rows.length) {
    const unabridged = make("details");
    unabridged.append(make("summary", "As JSON"), scrolling(make("pre", JSON.stringify(found, null, 2)), "The answer as JSON"));
    parts.push(unabridged);
  }
  return parts;
}

// Times in words; where a time is part of the row's key, the exact one too.
function fillValue(cell, name, value, isKey) {
  if (!TIMES.has(name) || typeof value !== "number") return cell.append(shown(value));
  cell.append(timeElement(value));
  if (isKey) cell.append(make("span", exact(value), "row soft"));
}

function tableOf(one, rows) {
  const plain = rows.map(row => row !== null && typeof row === "object" && !Array.isArray(row) && !JSON.isRawJSON?.(row) ? row : {value: row});
  const names = [...new Set(plain.flatMap(Object.keys))];
  const table = make("table");
  // Rows of a window store have its start as their key.
  const isStart = name => name === "key" && shapeOf(one.kind) === "window";
  const columns = names.map(name => ({name: isStart(name) ? "start_ms" : name}));
  const body = addHead(table, columns);
  table.setAttribute("aria-label", `Rows of store ${one.name}`);
  for (const row of plain) {
    const line = addRow(body, columns);
    names.forEach((name, at) => {
      line.cells[at].className = "mono";
      if (name in row) fillValue(line.cells[at], columns[at].name, row[name], columns[at].name !== "timestamp");
    });
  }
  const box = scrolling(make("div", null, "scrolls"), `Rows of store ${one.name}`);
  box.append(table);
  return box;
}
