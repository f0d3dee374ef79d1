// Once a second, while the page is visible: ask for the status, and show it.

let run = null, timer = 0, isAsking = false, since = Date.now();

function tile(id, label, value, note, {kind, noteKind, time, figure} = {}) {
  let one = byId(id);
  if (!one) {
    one = make("div", null, "tile");
    one.id = id;
    one.append(make("span", label), make("b"), make("span"));
    if (figure) one.append(hourFigure());
    byId("totals").append(one);
  }
  const [, big, small] = one.children;
  if (time == null) write(big, value);
  else if (big.textContent !== ago(time) || big.shownTime !== time) {
    big.replaceChildren(timeElement(time));
    big.shownTime = time;
  }
  big.className = kind ?? "";
  write(small, note);
  small.className = noteKind ?? "";
  if (figure) showHour(one.querySelector("figure"), label, figure, figure === "latency" ? milliseconds : rate);
}

function showTotals(status, tasks) {
  const all = [...tasks.values()], rates = known(all.map(one => one.perSecond)), lags = known(all.map(one => one.report?.lag));
  const records = rates.length ? sum(rates) : null, lag = lags.length ? sum(lags) : null;
  const [commits, seconds, dropped, dead] = counted("commits", "commit_seconds", "dropped", "dead_lettered");
  const latency = latencyOf(seconds, commits);
  keepHour({records, lag, latency, dropped, dead});
  const total = name => sum(status.instances.map(one => one.figures[name]));
  const lately = count => count > 0 ? `${number.format(count)} in the last ${WINDOW_MS / 1000} s` : "none lately";
  const running = all.filter(one => one.stage === "running").length;
  const unknown = all.length - lags.length;
  tile("records", "Records/s", rate(records), `${running} of ${plural(all.length, "task")} running`, {figure: "records"});
  tile("lag", "Lag", whole(lag), unknown ? `not known of ${plural(unknown, "task")}` : "to the ends of the inputs", {figure: "lag"});
  tile("latency", "Commit latency", milliseconds(latency), `${number.format(commits)} commits in ${WINDOW_MS / 1000} s`, {figure: "latency"});
  tile("dropped", "Dropped", whole(total("dropped")), lately(dropped), {kind: dropped > 0 ? "warn" : "", figure: "dropped"});
  tile("dead", "Dead-lettered", whole(total("dead_lettered")), lately(dead), {kind: dead > 0 ? "bad" : "", figure: "dead"});
  const oldest = oldestStreamTime(tasks);
  tile("stream", "Oldest stream time", "–", oldest ? `task ${oldest[0]}: ${heldBack(oldest[1])}` : "no task has processed a record", {time: oldest?.[1].report.stream_time_ms});
}

function showHealth(element, name, {ok, reason}) {
  if (element.wanted === `${ok} ${reason}`) return;
  element.wanted = `${ok} ${reason}`;
  element.replaceChildren(make("span", ok ? name : `not ${name}`, `pill ${ok ? "good" : "bad"}`), make("span", reason, "soft"));
}

function show(status) {
  const tasks = tasksOf(status);
  keep(status, tasks);
  for (const [id, one] of tasks) {
    one.perSecond = recordsPerSecond(id);
    one.restore = restoring(id, one.report, one.owner);
    one.isPaused = status.state === "paused" && one.owner?.instance === status.instance;
  }
  measureOperators();
  write(byId("application"), status.application_id);
  document.title = `${status.application_id} · ${status.state}`;
  byId("state").hidden = false;
  byId("state").className = `pill ${COLOURS[status.state] ?? ""}`;
  write(byId("state"), status.state);
  showHealth(byId("live"), "live", status.live);
  showHealth(byId("ready"), "ready", status.ready);
  byId("trouble").hidden = !status.directory;
  write(byId("trouble"), status.directory ? `Other instances are not known: ${status.directory}` : "");
  showRestore(tasks);
  showTotals(status, tasks);
  showTasks(tasks);
  showOperators();
  showInstances(status);
  showPicture(tasks);
}

function reveal(isShown) {
  for (const one of [byId("totals"), ...document.querySelectorAll(".shown")]) one.hidden = !isShown;
  if (!isShown) byId("restore").hidden = true;
}

// An instance that was restarted may have another topology.
async function meet(status) {
  if (run === status.instance) return;
  samples.length = 0;
  mostToRestore = new Map();
  loadHour(status.application_id);
  await Promise.all([draw(), listStores(), listOperators()]);
  run = status.instance;
  findTopics();  // the page does not wait for the brokers
}

async function turn() {
  clearTimeout(timer);
  if (document.hidden || isAsking || !byId("entry").hidden) return;
  isAsking = true;
  const begun = performance.now();
  try {
    const {status: code, found} = await json("status");
    if (code !== 200) throw new Error(found.error ?? `it answered ${code}`);
    await meet(found);
    show(found);
    reveal(true);
    since = Date.now();
    pulse("updates every second", "soft");
  } catch (problem) {
    if (problem instanceof Refused) askForToken();
    else pulse(`no answer for ${duration((Date.now() - since) / 1000)}: ${problem.message}`, "bad");
  } finally {
    isAsking = false;
    if (!document.hidden) timer = setTimeout(turn, Math.max(100, EVERY_MS - (performance.now() - begun)));
  }
}

function pulse(text, kind) {
  write(byId("pulse"), text);
  byId("pulse").className = kind;
  document.body.classList.toggle("stale", kind === "bad");
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else turn();
});

// --- the token -------------------------------------------------------------------------------

function askForToken() {
  const wasGiven = token !== "";
  byId("refused").hidden = !wasGiven;
  write(byId("refused"), wasGiven ? "The instance has another token." : "");
  token = "";
  sessionStorage.removeItem(TOKEN);
  run = null;
  reveal(false);
  byId("entry").hidden = false;
  byId("token").value = "";
  byId("token").focus();
  pulse("waiting for the token", "soft");
}

byId("entry").querySelector("form").addEventListener("submit", event => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem(TOKEN, token);
  byId("token").value = "";
  byId("entry").hidden = true;
  turn();
});

turn();
