// The dashboard. Whatever the gateway tells goes into the page as text, never as markup.
"use strict";

const POLL_MS = 2000;
const MAX_SAMPLES = 150; // five minutes
const FEW_SAMPLES = 15; // as wide as these at least is a chart
const MAX_ROWS = 12; // routes and tiers shown, the busiest first
const SVG = "http://www.w3.org/2000/svg";
const TOKEN = "sluicegate-admin-token";

const at = (id) => document.getElementById(id);
const samples = []; // each: { at, checks: {tier, route}, limits }
let paused = false;
let asking = false;
let caller = null; // of the last lookup

function make(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = String(text);
  if (className) element.className = className;
  return element;
}

class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function ask(path, method = "GET") {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch(path, { method, headers, cache: "no-store", signal: AbortSignal.timeout(10000) });
  const body = await answer.text();
  if (answer.ok) return body;
  let message = "the gateway answered " + answer.status;
  try { message = JSON.parse(body).message; } catch { /* it is no JSON, and the status says enough */ }
  throw new Refused(answer.status, message);
}

// ---- metrics ----

// `name{label="value",…} number` of the series that are wanted.
function series(text, name) {
  const found = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith(name + "{")) continue;
    const labels = {};
    for (const [, label, value] of line.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[label] = value.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
    }
    found.push({ labels, value: Number(line.slice(line.lastIndexOf(" ") + 1)) });
  }
  return found;
}

function sample(text) {
  const taken = { at: Date.now(), all: pair(), tier: new Map(), route: new Map(), limits: new Map() };
  for (const { labels, value } of series(text, "rate_limit_checks_total")) {
    const result = labels.result === "allowed" ? "passed" : "refused";
    taken.all[result] += value;
    entry(taken.tier, labels.tier, pair)[result] += value;
    entry(taken.route, labels.endpoint, pair)[result] += value;
  }
  for (const { labels, value } of series(text, "sluicegate_decisions_total")) {
    const limit = entry(taken.limits, labels.limit, () => ({ layer: labels.layer, allowed: 0, rejected: 0, shadow_rejected: 0 }));
    limit[labels.result] += value;
  }
  return taken;
}

const pair = () => ({ passed: 0, refused: 0 });

function entry(map, key, fresh) {
  if (!map.has(key)) map.set(key, fresh());
  return map.get(key);
}

// Requests a second between neighbouring samples, of what `pick` takes out of one.
function rates(pick) {
  const out = [];
  for (let index = 1; index < samples.length; index += 1) {
    const [before, after] = [samples[index - 1], samples[index]];
    const seconds = Math.max((after.at - before.at) / 1000, 0.001);
    const [old, now] = [pick(before) || pair(), pick(after) || pair()];
    const rate = (key) => Math.max(now[key] - old[key], 0) / seconds;
    out.push({ passed: rate("passed"), refused: rate("refused") });
  }
  return out;
}

// ---- drawing ----

function line(values, highest, width, height) {
  const step = width / Math.max(values.length - 1, FEW_SAMPLES);
  const start = width - step * (values.length - 1);
  const points = values.map((value, index) =>
    (start + step * index).toFixed(1) + " " + (height - 3 - (value / highest) * (height - 6)).toFixed(1));
  return points.length > 1 ? "M" + points.join("L") : "";
}

function draw(svg, found, width, height) {
  svg.querySelectorAll("path").forEach((path) => path.remove());
  const highest = Math.max(1e-9, ...found.map((rate) => Math.max(rate.passed, rate.refused)));
  for (const key of ["passed", "refused"]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", key);
    path.setAttribute("d", line(found.map((rate) => rate[key]), highest, width, height));
    svg.append(path);
  }
  return highest;
}

function spark(found) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 120 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  draw(svg, found, 120, 24);
  return svg;
}

// Fills a table. A column: [heading, what a row shows, whether it is a number]. The first one names the row.
function fill(table, columns, rows, empty) {
  if (table.contains(document.activeElement)) return;
  if (rows.length === 0) {
    table.replaceChildren(make("caption", empty));
    return;
  }
  const head = make("thead");
  const headings = make("tr");
  for (const [heading, , number] of columns) {
    const cell = make("th", heading, number ? "number" : "");
    cell.scope = "col";
    headings.append(cell);
  }
  head.append(headings);
  const body = make("tbody");
  for (const row of rows) {
    const cells = make("tr");
    columns.forEach(([, show, number], index) => {
      const shown = show(row);
      const cell = make(index === 0 ? "th" : "td", shown instanceof Element ? null : shown, number ? "number" : "");
      if (index === 0) cell.scope = "row";
      if (shown instanceof Element) cell.append(shown);
      cells.append(cell);
    });
    body.append(cells);
  }
  table.replaceChildren(head, body);
}

function list(target, items) {
  const parts = items.map(([name, text, className]) => {
    const item = make("div");
    item.append(make("dt", name), make("dd", text, className));
    return item;
  });
  target.replaceChildren(...parts);
}

const few = (number) => (number >= 10 ? Math.round(number).toString() : number.toFixed(1));
const whole = (number) => Number(number).toLocaleString("en");

function span(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  const [size, unit] = units.find(([size]) => seconds >= 2 * size) || [1, "s"];
  return Math.floor(seconds / size) + " " + unit;
}

// ---- sections ----

function showTraffic() {
  const all = rates((taken) => taken.all);
  const highest = draw(at("chart"), all, 600, 120);
  const last = all.at(-1) || pair();
  const words = few(last.passed) + " passed and " + few(last.refused) + " refused a second";
  at("chart-title").textContent = "Requests a second over time: now " + words;
  const seconds = samples.length > 1 ? (samples.at(-1).at - samples[0].at) / 1000 : 0;
  at("span").textContent = all.length ? "now " + words + "; the last " + span(seconds) + ", highest " + few(highest) : "one moment…";
  for (const kind of ["tier", "route"]) {
    const latest = samples.at(-1)[kind];
    const rows = [...latest].map(([name, total]) => ({ name, total, found: rates((taken) => taken[kind].get(name)) }));
    rows.sort((one, other) => other.total.passed + other.total.refused - one.total.passed - one.total.refused);
    const last = (row) => row.found.at(-1) || pair();
    const columns = [
      [kind === "tier" ? "Tier" : "Route", (row) => row.name],
      ["Passed/s", (row) => few(last(row).passed), true],
      ["Refused/s", (row) => few(last(row).refused), true],
      ["Over time", (row) => spark(row.found)],
      ["Refused in all", (row) => whole(row.total.refused), true],
    ];
    fill(at(kind + "s"), columns, rows.slice(0, MAX_ROWS), "No request so far.");
  }
}

function showLimits() {
  const [first, last] = [samples[0], samples.at(-1)];
  const refusals = (limit) => (limit ? limit.rejected + limit.shadow_rejected : 0);
  const rows = [...last.limits].map(([name, limit]) => ({ name, limit, recent: refusals(limit) - refusals(first.limits.get(name)) }));
  const binding = rows.filter((row) => refusals(row.limit) > 0);
  binding.sort((one, other) => other.recent - one.recent || refusals(other.limit) - refusals(one.limit));
  const share = ({ limit }) => (100 * refusals(limit)) / Math.max(limit.allowed + refusals(limit), 1);
  const columns = [
    ["Limit", (row) => row.name],
    ["Layer", (row) => row.limit.layer],
    ["Lately", (row) => whole(Math.max(row.recent, 0)), true],
    ["In all", (row) => whole(row.limit.rejected), true],
    ["Shadow", (row) => whole(row.limit.shadow_rejected), true],
    ["Share", (row) => few(share(row)) + " %", true],
  ];
  fill(at("limits"), columns, binding.slice(0, MAX_ROWS), "No limit has refused anything.");
}

function showStatus(status) {
  const { store } = status;
  const good = status.state === "ready";
  at("summary").textContent = (good ? "Ready" : status.state) + ", generation " + status.generation + ", version " + status.version;
  list(at("now"), [
    ["State", status.state, good ? "good" : "bad"],
    ["Requests in flight", whole(status.requests_in_flight)],
    ["Store", store.backend],
    ["Breaker", store.breaker_open ? "open: decided without the store" : "closed", store.breaker_open ? "bad" : "good"],
    ["Store failures", whole(store.failures)],
    ["Counters in memory", store.entries === null ? "unknown" : whole(store.entries)],
    ["Evicted", whole(store.evictions)],
    ["Up for", span(status.uptime_seconds)],
  ]);
  const servers = status.upstreams.flatMap((upstream) => upstream.servers.map((server) => ({ upstream: upstream.name, ...server })));
  const health = (row) => make("span", row.healthy ? "healthy" : "left out", row.healthy ? "good" : "bad");
  fill(at("upstreams"), [["Server", (row) => row.server], ["Upstream", (row) => row.upstream], ["State", health]], servers, "None.");
  const reload = status.last_reload;
  const failed = reload && reload.result === "failure";
  list(at("config"), [
    ["Generation", status.generation],
    ["Last reload", reload ? reload.result + ", " + reload.at : "none since the start", failed ? "bad" : "good"],
    ...Object.entries(status.configured).map(([name, count]) => [name[0].toUpperCase() + name.slice(1), whole(count)]),
  ]);
  at("problems").replaceChildren(...(reload ? reload.problems : []).map((problem) => make("li", problem)));
}

function showTop(top) {
  const last = [
    ["Refused", (row) => (row.refused_at_most_too_high_by ? "≤ " : "") + whole(row.refused), true],
    ["Last by", (row) => row.last_limit],
    ["Last at", (row) => row.last_at.slice(11, 19)],
  ];
  const look = (row) => {
    const [kind, name] = row.consumer === undefined ? ["ip", row.ip] : ["consumer", row.consumer];
    const button = make("button", name);
    button.type = "button";
    button.setAttribute("aria-label", "Look up " + name);
    button.addEventListener("click", () => {
      at("kind").value = kind;
      at("who").value = name;
      at("found").focus();
      lookUp(kind, name);
    });
    return button;
  };
  fill(at("callers"), [["Caller", look], ...last], top.callers, "Nobody was refused.");
  fill(at("places"), [["Route", (row) => row.route], ...last], top.routes, "Nothing was refused.");
}

// ---- one caller ----

async function lookUp(kind, name) {
  caller = { kind, name };
  at("resetting").hidden = true;
  try {
    const found = JSON.parse(await ask("/api/v1/limits?" + kind + "=" + encodeURIComponent(name)));
    showCounters(found);
  } catch (error) {
    at("counters").replaceChildren();
    fail(error, (message) => { at("found").textContent = message; });
  }
}

function showCounters(found) {
  const shown = found.limits.filter((line) => line.used !== 0 || line.layer !== "endpoint");
  const hidden = found.limits.length - shown.length;
  const open = found.open.length ? " Split further, so there may be more: " + found.open.map((line) => line.limit).join(", ") + "." : "";
  const who = [found.caller.consumer, found.caller.ip].filter(Boolean).join(" at ") + (found.caller.tier ? " (" + found.caller.tier + ")" : "");
  at("found").textContent = who + ": " + shown.length + (shown.length === 1 ? " counter" : " counters") + (hidden ? ", " + hidden + " of routes untouched" : "") + "." + open;
  const split = (line) => Object.entries(line.counter).filter(([tag]) => tag !== "consumer" && tag !== "ip").map((part) => part.join(" ")).join(", ");
  const columns = [
    ["Limit", (line) => line.limit],
    ["Layer", (line) => line.layer],
    ["Of", split],
    ["Left", (line) => (line.known ? line.remaining + " of " + line.capacity : "unknown"), true],
    ["Reset in", (line) => (line.known && line.used ? line.reset_seconds + " s" : "–"), true],
  ];
  fill(at("counters"), columns, shown, "No limit counts this caller.");
  at("resetting").hidden = false;
}

function askSure(sure) {
  at("sure").hidden = !sure;
  at("reset").hidden = sure;
  at(sure ? "no" : "reset").focus();
}

async function reset() {
  askSure(false);
  const { kind, name } = caller;
  try {
    const done = JSON.parse(await ask("/api/v1/limits?" + kind + "=" + encodeURIComponent(name), "DELETE"));
    await lookUp(kind, name);
    at("found").textContent = done.reset.length + (done.reset.length === 1 ? " counter was reset. " : " counters were reset. ") + at("found").textContent;
  } catch (error) {
    fail(error, (message) => { at("found").textContent = message; });
  }
}

// ---- the page ----

function fail(error, tell) {
  if (error.status === 401) {
    logOut();
    return;
  }
  tell(error.message || "the gateway does not answer");
}

function logOut() {
  const wrong = sessionStorage.getItem(TOKEN) !== null;
  sessionStorage.removeItem(TOKEN);
  at("main").hidden = true;
  at("logout").hidden = true;
  at("login").hidden = false;
  at("summary").textContent = "Logged out";
  warn(wrong ? "The token is not, or no longer, the right one." : "");
  at("token").focus();
}

function warn(text) {
  if (at("alert").textContent !== text) at("alert").textContent = text;
  at("alert").hidden = text === "";
}

async function poll() {
  if (asking || paused || !at("login").hidden) return;
  asking = true;
  try {
    const [status, top] = await Promise.all(["/api/v1/status", "/api/v1/top?n=10"].map((path) => ask(path)));
    samples.push(sample(await ask("/metrics")));
    if (samples.length > MAX_SAMPLES) samples.shift();
    at("main").hidden = false;
    at("logout").hidden = sessionStorage.getItem(TOKEN) === null;
    showStatus(JSON.parse(status));
    showTop(JSON.parse(top));
    showTraffic();
    showLimits();
    warn("");
  } catch (error) {
    fail(error, (message) => warn("Not up to date: " + message));
  } finally {
    asking = false;
  }
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, at("token").value.trim());
  at("token").value = "";
  at("login").hidden = true;
  warn("");
  poll();
});
at("logout").addEventListener("click", () => { sessionStorage.removeItem(TOKEN); logOut(); });
at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  at("pause").textContent = paused ? "Go on" : "Pause";
  poll();
});
at("lookup").addEventListener("submit", (event) => { event.preventDefault(); lookUp(at("kind").value, at("who").value.trim()); });
at("reset").addEventListener("click", () => askSure(true));
at("no").addEventListener("click", () => askSure(false));
at("yes").addEventListener("click", reset);
setInterval(() => { if (!document.hidden) poll(); }, POLL_MS);
poll();
