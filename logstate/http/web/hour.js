// Figures over the last hour: one point for each ten seconds in which the page was visible. They are
// kept in the tab's session storage, so that a reload does not lose them.

const POINT_MS = 10000, POINTS = 360;
const HOUR = "logstate hour " + location.pathname;
let hour = {application: null, points: []};

const pointNow = () => Math.floor(Date.now() / POINT_MS);

function isPoint(one) {
  return one !== null && typeof one === "object" && Number.isInteger(one.at) && one.at > pointNow() - POINTS && one.at <= pointNow();
}

// What was kept of another application at the same address is dropped.
function loadHour(application) {
  if (hour.application === application) return;
  hour = {application, points: []};
  try {
    const kept = JSON.parse(sessionStorage.getItem(HOUR));
    if (kept.application === application) hour.points = kept.points.filter(isPoint);
  } catch {
    sessionStorage.removeItem(HOUR);
  }
}

function keepHour(figures) {
  const {points} = hour, at = pointNow();
  if (points.at(-1)?.at === at) Object.assign(points.at(-1), figures);
  else {
    points.push({at, ...figures});
    hour.points = points.filter(isPoint);
    sessionStorage.setItem(HOUR, JSON.stringify(hour));
  }
}

// A line for each stretch without a gap, in a box of 100 by 20.
function curve(name, most) {
  let path = "", before = null;
  for (const point of hour.points) {
    const value = point[name];
    if (value == null) { before = null; continue; }
    const x = 100 - 100 * (pointNow() - point.at) / (POINTS - 1), y = 19 - 18 * value / (most || 1);
    path += `${before === point.at - 1 ? "L" : "M"}${x.toFixed(2)},${y.toFixed(1)}${before === point.at - 1 ? "" : "h.01"}`;
    before = point.at;
  }
  return path;
}

function hourFigure() {
  const figure = make("figure", null, "hour"), picture = drawn("svg", {viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img"});
  picture.append(drawn("path", {}));
  const caption = make("figcaption");
  caption.append(make("span", "last hour"), make("span"));
  figure.append(picture, caption);
  return figure;
}

function showHour(figure, label, name, written) {
  const values = known(hour.points.map(point => point[name]));
  const most = values.length ? Math.max(...values) : null;
  figure.querySelector("path").setAttribute("d", curve(name, most));
  const since = hour.points.length ? duration((pointNow() - hour.points[0].at + 1) * POINT_MS / 1000) : "no time";
  figure.querySelector("svg").setAttribute("aria-label", values.length ? `${label} over the last ${since}: at least ${written(Math.min(...values))}, at most ${written(most)}` : `${label}: not known yet`);
  write(figure.querySelector("figcaption").lastChild, most == null ? "" : `max ${written(most)}`);
}
