// Figures over the last seconds: /status has counters, and two of its answers give a rate.

const samples = [];
let mostToRestore = new Map();

// Each task once, of the instance with the latest claim; and those without an owner.
function tasksOf(status) {
  const tasks = new Map();
  for (const [sub, count] of Object.entries(status.task_counts ?? {}))
    for (let partition = 0; partition < count; partition++)
      tasks.set(`${sub}_${partition}`, {stage: "no owner", standbys: []});
  for (const one of status.instances)
    for (const [task, report] of Object.entries(one.tasks)) {
      const other = tasks.get(task);
      if (other?.report && other.report.claim >= report.claim) continue;
      tasks.set(task, {report, stage: report.stage, owner: one, standbys: []});
    }
  for (const one of status.instances)
    for (const [task, lag] of Object.entries(one.standbys))
      tasks.get(task)?.standbys.push({host: one.host, lag});
  const place = task => task.split("_").map(Number);
  return new Map([...tasks].sort(([a], [b]) => place(a)[0] - place(b)[0] || place(a)[1] - place(b)[1]));
}

// A topic of the application has another name since its state was moved to other partitions; the
// operators have the usual one.
function topicCounts({read, written}, application) {
  const own = `${application}-`;
  const usual = topic => topic.startsWith(own) ? own + topic.slice(own.length).replace(/^g\d+\./, "") : topic;
  const renamed = counts => Object.fromEntries(Object.entries(counts ?? {}).map(([topic, count]) => [usual(topic), count]));
  return {read: renamed(read), written: renamed(written)};
}

// A report was true when its instance sent it, not when it was read.
function keep(status, tasks) {
  const now = performance.now();
  const heard = one => now - one.silent_ms;
  samples.push({
    at: now,
    tasks: new Map([...tasks].filter(([, one]) => one.report).map(([id, one]) => [id, {...one.report, owner: one.owner.instance, at: heard(one.owner)}])),
    instances: new Map(status.instances.map(one => [one.instance, {...one.figures, ...topicCounts(one.figures, status.application_id), at: heard(one)}])),
  });
  while (samples.length > 2 && samples[0].at < now - WINDOW_MS - EVERY_MS / 2) samples.shift();
  if (samples.length === 2 && samples[0].at < now - 3 * WINDOW_MS) samples.shift();
}

// The oldest and the newest report of one thing, some time apart.
function span(kind, id, fits = () => true) {
  const last = samples.at(-1)[kind].get(id);
  if (!last) return null;
  for (const sample of samples) {
    const first = sample[kind].get(id);
    if (first && fits(first, last) && last.at - first.at > 700) return {first, last, seconds: (last.at - first.at) / 1000};
  }
  return null;
}

function recordsPerSecond(task) {
  const found = span("tasks", task);
  if (!found) return null;
  const both = Object.keys(found.last.positions).filter(one => one in found.first.positions);
  if (!both.length) return null;
  return Math.max(0, sum(both.map(one => found.last.positions[one] - found.first.positions[one]))) / found.seconds;
}

// An instance that was restarted has counted less, and is left out.
const isSameRun = (first, last) => first.processed <= last.processed && first.commits <= last.commits;

// Sums of all instances.
function counted(...names) {
  const spans = known([...samples.at(-1).instances.keys()].map(id => span("instances", id, isSameRun)));
  return names.map(name => sum(spans.map(({first, last}) => last[name] - first[name])));
}

// Records per second that all instances read from a topic, or write to it.
function topicPerSecond(counter, topic) {
  const spans = known([...samples.at(-1).instances.keys()].map(id => span("instances", id, isSameRun)));
  const report = spans.filter(({last}) => topic in last[counter]);
  if (!report.length) return null;
  return sum(report.map(({first, last, seconds}) => Math.max(0, last[counter][topic] - (first[counter][topic] ?? 0)) / seconds));
}

const latencyOf = (seconds, commits) => commits > 0 ? 1000 * seconds / commits : null;

// --- restore ---------------------------------------------------------------------------------

function restoring(id, report, owner) {
  if (!report?.restore_records) return null;
  const key = `${id} ${owner.instance}`;
  const most = Math.max(report.restore_records, mostToRestore.get(key) ?? 0);
  mostToRestore.set(key, most);
  const found = span("tasks", id, (first, last) => first.owner === last.owner && first.restore_records >= last.restore_records && last.restore_records > 0);
  const perSecond = found ? (found.first.restore_records - found.last.restore_records) / found.seconds : 0;
  return {left: report.restore_records, most, share: 1 - report.restore_records / most, perSecond};
}

// All tasks together; what was replayed before this page was opened is not known.
function showRestore(tasks) {
  const all = known([...tasks.values()].map(one => one.restore));
  byId("restore").hidden = !all.length;
  if (!all.length) return;
  const left = sum(all.map(one => one.left)), perSecond = sum(all.map(one => one.perSecond));
  const rest = perSecond > 0 ? `, ${rate(perSecond)} per second, about ${duration(left / perSecond)}` : "";
  write(byId("restore").querySelector("p"), `${plural(all.length, "task")} of ${number.format(tasks.size)} restoring: ${plural(left, "record")} left${rest}`);
  byId("restore").querySelector("progress").value = 1 - left / sum(all.map(one => one.most));
}

// --- stream time -----------------------------------------------------------------------------

// Why the stream time of a task does not advance now.
function heldBack({stage, report, perSecond, isPaused}) {
  if (stage === "no owner") return "no instance has the task";
  if (stage !== "running") return `the task is ${stage}`;
  if (isPaused) return "its instance is paused";
  if (report.waits_for?.length) return `buffered records wait for ${report.waits_for.join(", ")}, which may have older ones${report.waits_ms >= 1000 ? ` (for ${duration(report.waits_ms / 1000)})` : ""}`;
  if (report.lag > 0) return perSecond > 0 ? `${plural(report.lag, "record")} behind` : `${plural(report.lag, "record")} behind, and none was committed lately`;
  if (report.lag === 0) return "no newer record in its inputs";
  return "the ends of its inputs are not known yet";
}

// The input partition whose records are the oldest, if it is a second or more behind stream time.
function oldestInput({stream_time_ms: streamTime, partition_times: times}) {
  const all = Object.entries(times ?? {});
  if (all.length < 2) return [];
  const [name, ms] = all.reduce((oldest, one) => one[1] < oldest[1] ? one : oldest);
  return streamTime - ms >= 1000 ? [`${name} is ${duration((streamTime - ms) / 1000)} behind`] : [];
}

// What waits for the stream time of each operator, and how far it is from closing the first of it.
function openRows({open_rows: operators}) {
  return Object.entries(operators ?? {}).filter(([, one]) => one.next_ms != null).map(([node, one]) => {
    const rest = one.stream_time_ms == null ? 0 : Math.max(0, one.next_ms - one.stream_time_ms);
    return `${node}: ${whole(one.count)}${one.count >= 1000 ? " or more" : ""} open, the first closes after ${duration(rest / 1000)} of stream time`;
  });
}

// The task with the oldest stream time.
function oldestStreamTime(tasks) {
  const timed = [...tasks].filter(([, one]) => one.report?.stream_time_ms != null);
  return timed.reduce((least, one) => least && least[1].report.stream_time_ms <= one[1].report.stream_time_ms ? least : one, null);
}
