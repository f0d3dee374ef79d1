// The picture of the topology, with the figures of each sub-topology and operator written into it.

const PHONE = matchMedia("(max-width: 700px)");
const PHONE_WIDTH = 400;
let frames = new Map(), rates = new Map();

async function draw() {
  const isNarrow = PHONE.matches;
  const answer = await ask(isNarrow ? `topology?as=svg&width=${PHONE_WIDTH}` : "topology?as=svg");
  // Its colors are those of this page, light or dark, and its own style would be refused.
  const text = (await answer.text()).replace(/<style>[^]*?<\/style>/, "");
  const document_ = new DOMParser().parseFromString(text, "image/svg+xml");
  frames = new Map();
  rates = new Map();
  if (!answer.ok || document_.querySelector("parsererror")) return byId("picture").replaceChildren(make("p", "The topology cannot be drawn.", "bad"));
  for (const one of document_.querySelectorAll("style, script, foreignObject")) one.remove();
  const svg = document.importNode(document_.documentElement, true);
  svg.setAttribute("aria-label", "The topology as a picture; the tables of tasks and operators have the same figures");
  labelFrames(svg);
  labelOperators(svg);
  // As wide as there is room, but not so small that it cannot be read; a wide one has a row for itself.
  const width = placeOf(svg, "width");
  Object.assign(svg.style, {minWidth: isNarrow ? "" : `${Math.round(0.7 * width)}px`, maxWidth: `${Math.round(width)}px`});
  document.querySelector("main").classList.toggle("stacked", width > 620);
  byId("picture").classList.toggle("narrow", isNarrow);
  byId("picture").replaceChildren(svg);
}

// The tasks whose figures were written last: a picture that is drawn again has them at once.
let tasksInPicture = new Map();

PHONE.addEventListener("change", () => {
  if (run !== null) draw().then(() => showPicture(tasksInPicture)).catch(() => {});
});

const placeOf = (element, name) => Number(element.getAttribute(name));

function isInside(rect, title) {
  const x = placeOf(title, "x") - placeOf(rect, "x"), y = placeOf(title, "y") - placeOf(rect, "y");
  return x >= 0 && x <= placeOf(rect, "width") && y >= 0 && y <= placeOf(rect, "height");
}

// Two lines above each frame.
function labelFrames(svg) {
  const rects = [...svg.querySelectorAll("rect.frame")];
  for (const title of svg.querySelectorAll("text.title")) {
    const named = /^Sub-topology (\d+)$/.exec(title.textContent);
    const rect = rects.find(one => isInside(one, title));
    if (!named || !rect) continue;
    const lines = [20, 6].map(above => drawn("text", {x: placeOf(rect, "x") + 2, y: placeOf(rect, "y") - above}));
    svg.append(...lines);
    frames.set(Number(named[1]), {rect, lines});
  }
}

// Next to the line that enters each operator.
function labelOperators(svg) {
  for (const title of svg.querySelectorAll("g > title")) {
    const named = /^(?:source|processor|sink) (.*)$/.exec(title.textContent), rect = title.nextElementSibling;
    if (!named || rect?.tagName !== "rect") continue;
    const line = drawn("text", {class: "rate", x: placeOf(rect, "x") + placeOf(rect, "width") / 2 + 7, y: placeOf(rect, "y") - 5});
    svg.append(line);
    rates.set(named[1], line);
  }
}

function showPicture(tasks) {
  tasksInPicture = tasks;
  for (const [sub, {rect, lines}] of frames) {
    const own = [...tasks].filter(([id]) => Number(id.split("_")[0]) === sub).map(([, one]) => one);
    const worst = STAGES.find(stage => own.some(one => one.stage === stage)) ?? "no owner";
    const speeds = known(own.map(one => one.perSecond)), lags = known(own.map(one => one.report?.lag));
    write(lines[0], `${speeds.length ? rate(sum(speeds)) : "–"}/s · ${worst}`);
    write(lines[1], `lag ${lags.length ? whole(sum(lags)) : "–"}`);
    rect.setAttribute("class", `frame ${COLOURS[worst]}`);
    for (const line of lines) line.setAttribute("class", `report ${COLOURS[worst]}`);
  }
  for (const {name, perSecond} of operators) if (rates.has(name)) write(rates.get(name), perSecond == null ? "" : `${rate(perSecond)}/s`);
}
