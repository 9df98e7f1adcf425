// Live view page: renders each SSE message as text nodes only, so that a name can never become markup.
"use strict";

const byId = (id) => document.getElementById(id);
const scaled = (units, x, least, digits) => {
  for (const [name, unit] of units) if (x >= unit) return (x / unit).toFixed(digits) + " " + name;
  return x.toFixed(0) + " " + least;
};
const size = (x) => scaled([["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]], x, "B", 1);
const time = (x) => scaled([["s", 1e9], ["ms", 1e6], ["µs", 1e3]], x, "ns", 1);
const count = (x) => (x >= 1e3 ? scaled([["G", 1e9], ["M", 1e6], ["k", 1e3]], x, "", 1) : x < 10 && x % 1 > 0 ? x.toFixed(1) : x.toFixed(0));
const level = (x) => (Math.abs(x) >= 1e3 || x % 1 === 0 ? (x < 0 ? "-" : "") + count(Math.abs(x)) : x.toPrecision(3));
const long = (s) => (s < 90 ? s.toFixed(0) + " s" : s < 5400 ? (s / 60).toFixed(0) + " min" : (s / 3600).toFixed(0) + " h");
const known = (x, show) => (x === null || x === undefined ? "-" : show(x));

function cell(tag, value) {
  const element = document.createElement(tag);
  const { text, className, node } = typeof value === "object" ? value : { text: value };
  if (node) element.append(node);
  else element.textContent = text;
  if (className) element.className = className;
  return element;
}

function table(id, heads, rows, none) {
  const lines = [];
  if (rows.length > 0 && heads.length > 0) {
    const line = document.createElement("tr");
    for (const head of heads) {
      const th = cell("th", head);
      th.scope = "col";
      line.append(th);
    }
    lines.push(line);
  }
  for (const row of rows) {
    const line = document.createElement("tr");
    line.append(...row.map((value) => cell("td", value)));
    lines.push(line);
  }
  if (rows.length === 0) {
    const line = document.createElement("tr");
    line.append(cell("td", { text: none, className: "none" }));
    lines.push(line);
  }
  byId(id).replaceChildren(...lines);
}

const number = (text) => ({ text, className: "n" });

function meter(memory) {
  if (!memory.budget) return "";
  const node = document.createElement("meter");
  node.max = memory.budget;
  node.high = memory.budget * 0.8;
  node.value = memory.used;
  node.setAttribute("aria-label", "used of " + memory.name);
  return { node };
}

function trend(values) {
  const most = Math.max(...values, 1e-9);
  const line = document.createElementNS(byId("trend").namespaceURI, "polyline");
  const at = (value, i) => ((i / Math.max(values.length - 1, 1)) * 240).toFixed(1) + "," + (39 - (value / most) * 38).toFixed(1);
  line.setAttribute("points", values.map(at).join(" "));
  byId("trend").replaceChildren(line);
}

function title(view) {
  const s = view.snapshot;
  const parts = s ? [s.command + " (pid " + s.pid + ")", view.state, "up " + long(s.uptime_ms / 1e3)] : ["no process", view.state];
  if (s && view.cores !== null) parts.push(view.cores.toFixed(1) + " cores");
  if (s && view.cost_percent !== null) parts.push("cost " + view.cost_percent.toFixed(2) + " %");
  byId("title").textContent = parts.join(" · ");
  byId("title").className = view.state;
}

function show(view) {
  title(view);
  const s = view.snapshot;
  const how = "start a process with GPUFORGE_MONITOR=1";
  table("devices", ["device", "state", number("pieces"), number("busy"), number("moved")], (s ? s.devices : []).map((d) => [d.name, d.state,
    number(known(d.done, count)), number(known(d.busy, (b) => (b * 100).toFixed(0) + " %")), number(known(d.moved, size))]), s ? "none is open" : how);
  const full = (name) => view.filling.find((f) => f.name === name);
  table("memory", ["memory", "", number("used"), number("budget"), "pressure", number("full in")], (s ? s.memory : []).map((m) => [m.name, meter(m), number(size(m.used)),
    number(known(m.budget, size)), { text: m.pressure || "-", className: m.pressure || "" }, number(full(m.name) ? long(full(m.name).full_in) : "-")]), "-");
  const rate = (name) => view.rates.find((r) => r.name === name) || {};
  table("operations", ["operation", number("per s"), number("now"), number("usual"), number("in all")], (s ? s.operations : []).map((o) => [o.name, number(known(rate(o.name).per_second, count)),
    number(known(rate(o.name).mean_ns, time)), number(time(o.mean_ns)), number(count(o.count))]), "none has ended yet");
  byId("speed").textContent = view.trend.length > 0 ? count(view.trend[view.trend.length - 1]) : "-";
  trend(view.trend);
  const flow = (name) => view.flows.find((r) => r.name === name) || {};
  table("counters", ["counter", number("per s"), number("in all")], (s ? s.counters : []).map((c) => [c.name, number(known(flow(c.name).per_second, count)),
    number(count(c.value))]), "no counter yet");
  table("gauges", ["gauge", number("now"), number("least"), number("most")], (s ? s.gauges : []).map((g) => [g.name, number(level(g.value)),
    number(known(g.least, level)), number(known(g.most, level))]), "no gauge yet");
  byId("routed").textContent = s ? String(s.routed) : "0";
  byId("batched").textContent = s ? String(s.batched) : "0";
  table("routing", ["operation", "place", number("took"), number("predicted"), "because"], (s ? s.routing : []).slice(-12).reverse().map((r) => [r.operation, r.place,
    number(time(r.wall_ns)), number(known(r.predicted_ns, time)), r.reason]), "none yet");
  const events = (s ? s.events : []).map((e) => [e.at_ms, e.level, e.text]);
  for (const a of view.anomalies) events.push([a.at_ms, "warning", a.operation + ": " + a.factor.toFixed(1) + " times as long as " +
    (a.against === "history" ? "usual" : "predicted") + " (z " + a.z.toFixed(1) + ")"]);
  events.sort((a, b) => b[0] - a[0]);
  table("events", [], events.slice(0, 16).map(([at, level, text]) => [number((at / 1e3).toFixed(1) + " s"), { text: level, className: level }, text]), "none yet");
}

function showMachine(machine) {
  byId("choice").textContent = machine.choice ? "would use " + machine.choice : "";
  const rows = (list) => (list || []).map((r) => [r.name, { text: r.state, className: r.state }, r.detail]);
  table("inventory", [], rows(machine.devices), "looking");
  table("doctor", [], rows(machine.doctor), machine.doctor ? "nothing to report" : "looking");
  table("fit", [], rows(machine.fit), machine.fit ? "nothing to report" : "looking");
}

async function machine() {
  try {
    const answer = await fetch("machine");
    const found = await answer.json();
    showMachine(found);
    if (found.doctor && found.fit) return;
  } catch (_) {
    // The monitor is gone; the last view stays, and the status line says so.
  }
  setTimeout(machine, 1000);
}

const source = new EventSource("events");
source.onmessage = (event) => show(JSON.parse(event.data));
source.onopen = () => { byId("link").textContent = ""; };
source.onerror = () => { byId("link").textContent = "the monitor itself does not answer"; };
machine();
