// Tables that are filled again every second: only what has changed is written.

// A cell is a text, or {text, time, kind, title, href, share, label, more, moreKind}: more are texts
// below, a time is written in words, label names the share.
function fillCell(cell, value) {
  const cellValue = typeof value === "string" ? {text: value} : value;
  const {time, kind, title, href, share, label, more, moreKind} = cellValue;
  const text = time == null ? cellValue.text : ago(time);
  const wanted = JSON.stringify({...cellValue, text});
  if (cell.wanted === wanted) return;
  cell.wanted = wanted;
  const inner = time == null ? make(href ? "a" : "span", text, kind) : timeElement(time);
  if (href) Object.assign(inner, {href, rel: "noreferrer"});
  if (title) inner.title = title;
  const parts = make("div");
  parts.append(inner);
  if (share != null) {
    const bar = Object.assign(make("progress"), {max: 1, value: share});
    bar.setAttribute("aria-label", label);
    parts.append(bar);
  }
  for (const one of more ?? []) parts.append(make("span", one, `row ${moreKind ?? "soft"}`));
  cell.replaceChildren(parts);
  cell.classList.toggle("empty", !text);
}

// The first cell of a row is its header. Roles are given, because a phone shows rows as cards, and
// an element that is not laid out as a table loses them.
function cellOf({name, isNumber, span}, isFirst) {
  const cell = make(isFirst ? "th" : "td", null, isNumber ? "number" : "");
  if (isFirst) cell.scope = "row";
  cell.setAttribute("role", isFirst ? "rowheader" : "cell");
  Object.assign(cell.dataset, {label: name, span: span ?? 1});
  return cell;
}

function addHead(table, columns) {
  const head = table.createTHead(), line = head.insertRow();
  table.setAttribute("role", "table");
  head.setAttribute("role", "rowgroup");
  line.setAttribute("role", "row");
  for (const {name, isNumber} of columns) {
    const cell = Object.assign(make("th", name, isNumber ? "number" : ""), {scope: "col"});
    cell.setAttribute("role", "columnheader");
    line.append(cell);
  }
  const body = table.createTBody();
  body.setAttribute("role", "rowgroup");
  return body;
}

function addRow(body, columns) {
  const row = make("tr");
  row.setAttribute("role", "row");
  row.append(...columns.map((column, at) => cellOf(column, at === 0)));
  body.append(row);
  return row;
}

function fillTable(table, columns, rows) {
  if (!table.tHead) {
    addHead(table, columns);
    table.rowsById = new Map();
  }
  const body = table.tBodies[0];
  for (const [id, row] of table.rowsById) if (!rows.has(id)) { row.remove(); table.rowsById.delete(id); }
  let before = null;
  for (const [id, values] of rows) {
    let row = table.rowsById.get(id);
    if (!row) table.rowsById.set(id, row = addRow(body, columns));
    const next = before ? before.nextSibling : body.firstChild;
    if (row !== next) body.insertBefore(row, next);
    values.forEach((value, at) => fillCell(row.cells[at], value));
    before = row;
  }
}

function address(one) {
  if (!one) return {text: "–", kind: "soft"};
  if (!one.host) return {text: one.instance.slice(0, 8), title: "it has no address, so it answers no queries"};
  const cell = {text: one.host.replace(/^https?:\/\//, ""), kind: "mono"};
  if (/^https?:\/\//.test(one.host)) cell.href = one.host.replace(/\/?$/, "/");
  return cell;
}

// --- tasks -----------------------------------------------------------------------------------

const TASK_COLUMNS = [{name: "Task"}, {name: "Stage"}, {name: "Records/s", isNumber: true}, {name: "Lag", isNumber: true}, {name: "Stream time", span: 3}, {name: "Owner", span: 2}, {name: "Standbys, lag", span: 2}];

function streamTime(one) {
  if (one.report?.stream_time_ms == null) return {text: "–", more: [one.report ? `no record yet: ${heldBack(one)}` : heldBack(one)]};
  return {time: one.report.stream_time_ms, more: [heldBack(one), ...oldestInput(one.report), ...openRows(one.report)]};
}

function showTasks(tasks) {
  const rows = new Map();
  for (const [id, one] of tasks) {
    const {restore} = one;
    const standbys = one.standbys.map(({host, lag}) => `${address({host, instance: "no address"}).text}, ${lag == null ? "begins" : whole(lag)}`);
    const stage = {text: one.stage, kind: `pill ${COLOURS[one.stage] ?? ""}`};
    if (restore) {
      Object.assign(stage, {share: restore.share, label: `Restored part of task ${id}`, more: [`${whole(restore.left)} left`]});
      if (restore.perSecond > 0) stage.more.push(`${rate(restore.perSecond)}/s, ${duration(restore.left / restore.perSecond)}`);
    }
    rows.set(id, [
      {text: id, kind: "mono"},
      stage,
      rate(one.perSecond),
      {text: whole(one.report?.lag), kind: one.report?.lag > 0 ? "" : "soft"},
      streamTime(one),
      address(one.owner),
      standbys.length ? {text: standbys[0], kind: "mono", more: standbys.slice(1), moreKind: "mono"} : "",
    ]);
  }
  fillTable(byId("tasks"), TASK_COLUMNS, rows);
}

// --- operators -------------------------------------------------------------------------------

const OPERATOR_COLUMNS = [{name: "Operator", span: 3}, {name: "Kind"}, {name: "Sub-topology", isNumber: true}, {name: "Receives, records/s", isNumber: true}, {name: "Stores", span: 3}];
let operators = [];

async function listOperators() {
  const {found} = await json("topology?as=json");
  operators = found.sub_topologies.flatMap(part => part.operators.map(one => ({...one, part: part.id})));
}

function measureOperators() {
  for (const one of operators) {
    const rates = (one.receives ?? [null]).map(count => count && topicPerSecond(count.is_written ? "written" : "read", count.topic));
    one.perSecond = rates.includes(null) ? null : sum(rates);
  }
}

function showOperators() {
  const rows = new Map(operators.map(one => [`${one.part} ${one.name}`, [
    {text: one.name, kind: "mono"},
    one.kind,
    String(one.part),
    one.receives ? rate(one.perSecond) : {text: "not counted", kind: "soft", title: "It follows from the counts of topics only for operators whose number of records is theirs"},
    one.stores.length ? {text: one.stores[0], kind: "mono", more: one.stores.slice(1), moreKind: "mono"} : "",
  ]]));
  fillTable(byId("operators"), OPERATOR_COLUMNS, rows);
}

// --- instances -------------------------------------------------------------------------------

const INSTANCE_COLUMNS = [{name: "Address", span: 2}, {name: "Rack"}, {name: "Version"}, {name: "Workers", isNumber: true}, {name: "Tasks", isNumber: true}, {name: "Standbys", isNumber: true}, {name: "Records/s", isNumber: true}, {name: "Commit", isNumber: true}, {name: "Dropped", isNumber: true}, {name: "Dead-lettered", isNumber: true}, {name: "Heard of", isNumber: true}];

function showInstances(status) {
  const rows = new Map();
  for (const one of status.instances) {
    const stages = Object.values(one.tasks).map(report => report.stage);
    const running = stages.filter(stage => stage === "running").length;
    const found = span("instances", one.instance, (first, last) => first.processed <= last.processed);
    const of = name => found.last[name] - found.first[name];
    const where = address(one);
    if (one.instance === status.instance) where.more = ["this one"];
    rows.set(one.instance, [
      where,
      one.rack || "–",
      one.version || "–",
      whole(one.workers),
      running === stages.length ? whole(running) : {text: `${running} of ${stages.length}`, kind: "warn", title: "so many run"},
      whole(Object.keys(one.standbys).length),
      rate(found && of("processed") / found.seconds),
      milliseconds(found && latencyOf(of("commit_seconds"), of("commits"))),
      whole(one.figures.dropped),
      {text: whole(one.figures.dead_lettered), kind: one.figures.dead_lettered ? "bad" : ""},
      {time: Date.now() - one.silent_ms, more: one.silent_ms > 2500 ? ["it is late"] : [], moreKind: "warn"},
    ]);
  }
  fillTable(byId("instances"), INSTANCE_COLUMNS, rows);
}
