// The newest records of a topic and the dead letters: read from the brokers when they are asked for.

const SHORT = 200;
const RECORD_COLUMNS = [{name: "Time"}, {name: "Partition, offset"}, {name: "Key"}, {name: "Value", span: 3}];
const LETTER_COLUMNS = [...RECORD_COLUMNS, {name: "Error", span: 3}];
let letterTopic = null;

// The list comes from the manifest, which the brokers have.
async function listTopics() {
  const {status, found} = await json("topics");
  if (status !== 200) throw new Error(found.error ?? `it answered ${status}`);
  const kinds = ["dead letters", "input", "output", "repartition", "changelog"];
  const topics = [...found.topics].sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind));
  const before = byId("topic").value;
  byId("topic").replaceChildren(...topics.map(one => Object.assign(make("option", `${one.name} (${one.kind})`), {value: one.name})));
  if (topics.some(one => one.name === before)) byId("topic").value = before;
  letterTopic = topics.find(one => one.kind === "dead letters")?.name ?? null;
  byId("letters").classList.toggle("shown", letterTopic !== null);
  byId("letters").hidden = letterTopic === null || byId("totals").hidden;
  write(byId("lettersOf"), letterTopic === null ? "" : `Records of ${letterTopic}, with the error of each.`);
}

async function findTopics() {
  try {
    await listTopics();
    byId("read").replaceChildren();
  } catch (problem) {
    if (problem instanceof Refused) return askForToken();
    const again = Object.assign(make("button", "Try again"), {type: "button", onclick: findTopics});
    byId("read").replaceChildren(make("p", `The topics are not known: ${problem.message}`, "bad"), again);
  }
}

const topicPath = (name, count) => `topics/${encodeURIComponent(name)}?limit=${count}`;
const readTopic = asker(byId("read"), "reading …", recordsOf);
const readLetters = asker(byId("failed"), "reading …", recordsOf);

byId("browse").querySelector("form").addEventListener("submit", event => {
  event.preventDefault();
  readTopic(topicPath(byId("topic").value, byId("count").value));
});

byId("letters").querySelector("form").addEventListener("submit", event => {
  event.preventDefault();
  readLetters(topicPath(letterTopic, 20));
});

function recordsOf(status, found) {
  if (found.error) return [make("p", `${status}: ${found.error}`, "bad")];
  const parts = [];
  if (!found.is_complete) parts.push(make("p", "The search ended early, because it took too long or read too much: there may be more records.", "warn"));
  if (!found.records.length) return [...parts, make("p", `${found.topic} has no committed records.`)];
  const columns = found.records.some(one => one.error) ? LETTER_COLUMNS : RECORD_COLUMNS;
  const table = make("table", null, "cards records"), body = addHead(table, columns);
  table.setAttribute("aria-label", `Newest records of ${found.topic}`);
  for (const one of found.records) addRecord(addRow(body, columns), one);
  const box = scrolling(make("div", null, "scrolls"), `Newest records of ${found.topic}`);
  box.append(table);
  const doubts = [...new Set(found.records.flatMap(one => [one.key_format, one.value_format]).filter(format => format.includes(":") || format.includes(",")))];
  if (doubts.length) parts.push(make("p", `Formats: ${doubts.join("; ")}`, "soft"));
  return [...parts, box];
}

function addRecord(row, one) {
  const [time, place, key, value, error] = row.cells;
  time.append(timeElement(one.timestamp));
  place.append(make("span", `${one.partition}, ${number.format(one.offset)}`));
  key.append(long(one.key_format === "none" ? "no key" : shown(one.key), one.key_format === "none" ? "soft" : "mono"));
  if (one.window_start != null) key.append(make("span", `[${exact(one.window_start)}, ${one.window_end == null ? "?" : exact(one.window_end)}]`, "row soft"));
  value.append(one.value_format === "none" ? make("span", "deleted", "soft") : long(shown(one.value), "mono"));
  if (!error || !one.error) return;
  const {exception, message, topic, partition, offset, stacktrace, cut} = one.error;
  error.append(make("span", exception, "row bad mono"), long(message ?? "", ""));
  if (topic) error.append(make("span", `of ${topic}-${partition} at offset ${offset}`, "row soft"));
  if (cut) error.append(make("span", cut, "row warn"));
  if (stacktrace) error.append(more("Stack trace", stacktrace));
}

// A long text begins with its first signs.
function long(text, kind) {
  if (text.length <= SHORT) return make("span", text, kind);
  const both = make("div");
  both.append(make("span", `${text.slice(0, SHORT)}…`, kind), more("All of it", text));
  return both;
}

function more(label, text) {
  const details = make("details");
  details.append(make("summary", label), scrolling(make("pre", text), label));
  return details;
}
