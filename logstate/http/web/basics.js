"use strict";
// What every other part of the page uses: texts for numbers and times, elements, requests.
// Whatever comes from the instance is written as text; nothing of it is ever parsed as HTML.

const EVERY_MS = 1000, WINDOW_MS = 10000, PATIENCE_MS = 15000;
const SVG = "http://www.w3.org/2000/svg";
// Worst first.
const STAGES = ["no owner", "assigned", "restoring", "starting", "running"];
const COLOURS = {"no owner": "bad", assigned: "warn", restoring: "warn", starting: "warn", running: "good", paused: "warn", error: "bad", stopped: "bad"};
const TOKEN = "logstate token " + location.pathname;

const byId = id => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const oneDigit = new Intl.NumberFormat("en", {maximumFractionDigits: 1});
const whole = value => value == null ? "–" : number.format(Math.round(value));
const rate = value => value == null ? "–" : value < 100 ? oneDigit.format(value) : whole(value);
const milliseconds = value => value == null ? "–" : `${rate(value)} ms`;
const sum = values => values.reduce((total, value) => total + value, 0);
const known = values => values.filter(value => value != null);
const plural = (count, noun) => `${number.format(count)} ${noun}${count === 1 ? "" : "s"}`;

// --- times -----------------------------------------------------------------------------------

// From this many seconds on, in units of so many seconds.
const UNITS = [[47304000, 31536000, "year"], [3888000, 2592000, "month"], [129600, 86400, "day"], [5400, 3600, "hour"], [90, 60, "minute"], [0, 1, "second"]];

function duration(seconds) {
  const [, size, unit] = UNITS.find(([from]) => seconds >= from);
  return plural(Math.round(seconds / size), unit);
}

// "3 minutes ago"; times of records may be in the future.
function ago(ms) {
  const seconds = (Date.now() - ms) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

// The exact time in UTC; of a number that is not a time, the number.
function exact(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}

// A time in words, whose title is the exact one.
function timeElement(ms) {
  const element = make("time", ago(ms));
  element.dateTime = element.title = exact(ms);
  return element;
}

// --- elements --------------------------------------------------------------------------------

function make(tag, text, kind) {
  const made = document.createElement(tag);
  if (text != null) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function drawn(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A part that scrolls has to be reachable by the keyboard, and have a name.
function scrolling(element, label) {
  element.tabIndex = 0;
  element.setAttribute("role", "region");
  element.setAttribute("aria-label", label);
  return element;
}

// --- requests --------------------------------------------------------------------------------

let token = sessionStorage.getItem(TOKEN) ?? "";

class Refused extends Error {}

// The path is relative: the instance may be mounted anywhere.
async function ask(path, signal) {
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const patience = AbortSignal.timeout(PATIENCE_MS);
  const either = signal ? AbortSignal.any([signal, patience]) : patience;
  const answer = await fetch(path, {headers, cache: "no-store", signal: either});
  if (answer.status === 401) throw new Refused("this token is not the one of the instance");
  return answer;
}

// Integers that a browser would round stay as they were written.
const exactly = (_, value, written) =>
  typeof value === "number" && !Number.isSafeInteger(value) && Number.isInteger(value) && written?.source && JSON.rawJSON
    ? JSON.rawJSON(written.source) : value;

async function json(path, signal) {
  const answer = await ask(path, signal);
  const text = await answer.text();
  let found;
  try {
    found = JSON.parse(text, exactly);
  } catch {
    found = {error: text.slice(0, 300) || answer.statusText};
  }
  return {status: answer.status, found};
}

// Shows the answer to a question of the user in a place; a later question replaces it.
function asker(place, waiting, shown) {
  let asking = null;
  return async path => {
    asking?.abort();
    asking = new AbortController();
    const {signal} = asking;
    place.replaceChildren(make("p", waiting, "soft"));
    try {
      const {status, found} = await json(path, signal);
      if (!signal.aborted) place.replaceChildren(...shown(status, found));
    } catch (problem) {
      if (signal.aborted) return;
      if (problem instanceof Refused) askForToken();
      else place.replaceChildren(make("p", problem.name === "TimeoutError" ? "No answer in time." : problem.message, "bad"));
    }
  };
}
