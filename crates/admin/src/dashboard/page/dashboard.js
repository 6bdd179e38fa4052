// The dashboard: asks for `status.json` once a second, and shows what lies between two answers.
"use strict";

const F = Figures;
const EVERY = 1000; // milliseconds between two questions
const KEPT = 300; // points of a plot
const WINDOW = 10; // seconds that quantiles and rates of tables are about
const MOST_SCOPES = 400; // sites, routes and pools whose past is kept
const $ = (id) => document.getElementById(id);

const state = {
  documents: [], // the last ones, the newest last: { at, doc, sites, routes, pools }
  past: new Map(), // scope → { t, rps, c4, c5, p50, p95, p99 }
  scope: "all",
  tab: "in_flight",
  paused: false,
  sort: {},
  failures: 0,
};

// ---- documents -------------------------------------------------------------------------------------------------------

const scopeOf = { site: (row) => "site " + row.name, route: (row) => "route " + row.site + " " + row.name, pool: (row) => "pool " + row.name };
const endpointKey = (pool, endpoint) => pool.name + "\u0000" + endpoint.name + "\u0000" + endpoint.address;

function indexed(doc) {
  const rows = new Map();
  for (const row of doc.sites) rows.set(scopeOf.site(row), row);
  for (const row of doc.routes) rows.set(scopeOf.route(row), row);
  for (const pool of doc.pools) {
    rows.set(scopeOf.pool(pool), pool);
    for (const endpoint of pool.endpoints) rows.set("endpoint " + endpointKey(pool, endpoint), endpoint);
  }
  const all = { responses: {}, latency: { total: { steps: F.join(doc.sites.map((s) => s.latency.total.steps)) }, first_byte: { steps: F.join(doc.sites.map((s) => s.latency.first_byte.steps)) } }, bytes_in: 0, bytes_out: 0 };
  for (const site of doc.sites) {
    for (const [name, count] of Object.entries(site.responses)) all.responses[name] = (all.responses[name] || 0) + count;
    all.bytes_in += site.bytes_in;
    all.bytes_out += site.bytes_out;
  }
  rows.set("all", all);
  return rows;
}

// The document that is about `seconds` older than the newest.
function before(seconds) {
  const { documents } = state;
  const now = documents[documents.length - 1].at;
  for (let at = documents.length - 2; at >= 0; at--) if (now - documents[at].at >= seconds * 1000 - EVERY / 2) return documents[at];
  return documents[0];
}

const diff = (now, old) => (old === undefined || now < old ? now : now - old);

// What a row did between two documents.
function change(key, seconds) {
  const newest = state.documents[state.documents.length - 1];
  const older = before(seconds);
  const row = newest.rows.get(key);
  const old = older.rows.get(key);
  const time = (newest.at - older.at) / 1000;
  if (!row || !time) return null;
  const per = (name) => diff(row[name], old ? old[name] : 0) / time;
  const classes = {};
  let all = 0;
  for (const name of Object.keys(row.responses)) {
    classes[name] = diff(row.responses[name], old ? old.responses[name] : 0) / time;
    all += classes[name];
  }
  const steps = (phase) => {
    const held = row.latency && row.latency[phase];
    if (!held) return [];
    return F.since(held.steps, old && old.latency[phase] ? old.latency[phase].steps : []);
  };
  const errors = row.connect_errors === undefined ? 0 : per("connect_errors") + per("response_errors");
  return { rps: all, classes, per, steps, errors, time };
}

function remember() {
  const newest = state.documents[state.documents.length - 1];
  if (state.documents.length < 2) return;
  for (const key of newest.rows.keys()) {
    if (key.startsWith("endpoint ")) continue;
    let past = state.past.get(key);
    if (!past) {
      if (state.past.size >= MOST_SCOPES) continue;
      past = { t: [], rps: [], c4: [], c5: [], p50: [], p95: [], p99: [] };
      state.past.set(key, past);
    }
    const now = change(key, 1);
    const recent = change(key, 5);
    if (!now) continue;
    const steps = recent.steps("total");
    const point = { t: newest.at / 1000, rps: now.rps, c4: now.classes["4xx"], c5: now.classes["5xx"], p50: F.quantile(steps, 0.5), p95: F.quantile(steps, 0.95), p99: F.quantile(steps, 0.99) };
    for (const [name, list] of Object.entries(past)) {
      list.push(point[name]);
      if (list.length > KEPT) list.shift();
    }
  }
  for (const key of state.past.keys()) if (!newest.rows.has(key)) state.past.delete(key);
}

// ---- elements --------------------------------------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const set = (node, text) => {
  text = String(text);
  if (node.textContent !== text) node.textContent = text;
};

const setClass = (node, name) => {
  if (node.className !== name) node.className = name;
};

// Keeps a child for each item by its key, in the order of the items. What has the focus is not made anew.
function keyed(parent, items, keyOf, make, update) {
  const known = parent.kept || (parent.kept = new Map());
  const wanted = new Set();
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (wanted.has(key)) continue;
    wanted.add(key);
    let child = known.get(key);
    if (!child) {
      child = make(item);
      known.set(key, child);
    }
    update(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const [key, child] of known) {
    if (!wanted.has(key)) {
      child.remove();
      known.delete(key);
    }
  }
}

// A table of columns { title, number, of(item) → text or { text, small, node, bad }, by(item) → what it is sorted by }.
function table(id, columns, items, keyOf, empty) {
  const node = $(id) || id;
  const head = node.tHead;
  const sort = state.sort[node.id];
  if (!head.rows.length || node.columns !== columns) {
    node.columns = columns;
    const cells = columns.map((column, at) => {
      const title = column.hidden ? element("span", { class: "muted" }, column.title) : column.by ? element("button", { type: "button", class: "sort", "data-at": at, onclick: () => sortBy(node, at) }, column.title) : column.title;
      return element("th", { scope: "col", class: column.number ? "n" : "" }, title);
    });
    head.replaceChildren(element("tr", {}, ...cells));
  }
  head.querySelectorAll("button.sort").forEach((button) => {
    const on = sort === Number(button.dataset.at);
    button.toggleAttribute("data-on", on);
    if (on) button.closest("th").setAttribute("aria-sort", "descending");
    else button.closest("th").removeAttribute("aria-sort");
  });
  if (sort !== undefined && columns[sort].by) items = [...items].sort((a, b) => (columns[sort].by(b) ?? -1) - (columns[sort].by(a) ?? -1));
  const body = node.tBodies[0];
  keyed(body, items, keyOf, () => element("tr", {}, ...columns.map((column, at) => (at ? element("td", { class: (column.number ? "n " : "") + (column.wide ? "wide " : "") + (column.class || ""), "data-label": column.hidden || column.wide ? undefined : column.title }) : element("th", { scope: "row" })))), (row, item) => {
    columns.forEach((column, at) => fill(row.cells[at], column.of(item, row.cells[at]), column));
  });
  let none = body.querySelector("tr.none-row");
  if (!items.length && !none) body.append(element("tr", { class: "none-row" }, element("td", { class: "none", colspan: columns.length }, empty)));
  if (none && items.length) none.remove();
  if (none && !items.length) set(none.firstElementChild, empty);
}

function fill(cell, value, column) {
  if (value === undefined) return; // it has seen to itself
  if (value === null || typeof value !== "object") value = { text: value ?? "–" };
  let text = cell.querySelector(":scope > .v");
  if (!text) {
    text = element("span", { class: "v" });
    cell.append(text);
  }
  if (value.node) {
    if (text.firstElementChild !== value.node) text.replaceChildren(value.node);
  } else set(text, value.text);
  let small = text.nextElementSibling;
  if (value.small !== undefined) {
    if (!small) cell.append((small = element("small")));
    set(small, value.small);
  }
  if (column.number) cell.classList.toggle("bad", Boolean(value.bad));
}

function sortBy(node, at) {
  state.sort[node.id] = state.sort[node.id] === at ? undefined : at;
  show();
}

function facts(id, pairs) {
  const node = $(id);
  keyed(node, pairs.flatMap(([name, value]) => [{ key: name + "=", text: name, tag: "dt" }, { key: name, text: value, tag: "dd" }]), (one) => one.key, (one) => element(one.tag), (child, one) => set(child, one.text));
}

const pill = (cell, text, kind) => {
  let node = cell.querySelector(".pill");
  if (!node) {
    node = element("span", { class: "pill" });
    cell.append(node);
  }
  set(node, text);
  setClass(node, "pill " + kind);
  return node;
};

// ---- plots -----------------------------------------------------------------------------------------------------------

const plots = {};
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const SERIES = {
  rate: [["rps", "all", "--one"], ["c4", "4xx", "--two", [6, 3]], ["c5", "5xx", "--three", [2, 2]]],
  latency: [["p50", "p50", "--one"], ["p95", "p95", "--two", [6, 3]], ["p99", "p99", "--three", [2, 2]]],
};

function plot(kind, format) {
  const box = $(kind + "-plot");
  const past = state.past.get(state.scope);
  const points = past ? past.t.length : 0;
  const values = past ? SERIES[kind].map(([name]) => past[name]) : [];
  const any = points > 1 && values.some((list) => list.some((value) => value !== null));
  if (!any) {
    if (plots[kind]) plots[kind].destroy();
    delete plots[kind];
    if (!box.querySelector(".empty")) box.replaceChildren(element("div", { class: "empty" }));
    set(box.firstElementChild, points > 1 ? "no requests yet" : "collecting …");
  } else {
    // The last five minutes, and no less: a plot that has just begun does not stretch a second over its width.
    const data = [past.t, ...values];
    if (!plots[kind]) {
      box.replaceChildren();
      plots[kind] = new uPlot(options(kind, box, format), data, box);
    } else plots[kind].setData(data);
  }
  const last = (name) => (past && past[name].length ? past[name][past[name].length - 1] : null);
  keyed($(kind + "-legend"), SERIES[kind], ([name]) => name, ([, , c, dash]) => element("span", { style: `--c: var(${c}); --dash: ${dash ? (dash[0] === 2 ? "dotted" : "dashed") : "solid"}` }), (node, [name, label]) => set(node, label + " " + format(last(name))));
  const spoken = SERIES[kind].map(([name, label]) => label + " " + format(last(name))).join(", ");
  const title = (kind === "rate" ? "Requests per second" : "Latency") + " of " + scopeName() + ": " + spoken;
  if (box.getAttribute("aria-label") !== title) box.setAttribute("aria-label", title);
}

function options(kind, box, format) {
  const axis = { stroke: color("--muted"), grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width: box.clientWidth || 300,
    height: box.clientHeight || 200,
    legend: { show: false },
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    scales: { x: { time: true, range: (u, min, max) => [Math.min(min, max - 60), max] }, y: { range: (u, min, max) => [0, Math.max(max * 1.1, kind === "rate" ? 1 : 100)] } },
    axes: [{ ...axis, size: 28, space: 70, values: (u, all) => all.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false })) }, { ...axis, size: 62, space: 34, values: (u, all) => all.map((value) => (value === 0 ? "0" : format(value))) }],
    series: [{}, ...SERIES[kind].map(([, label, c, dash]) => ({ label, stroke: color(c), width: 1.6, dash, points: { show: false }, spanGaps: false }))],
    hooks: { setCursor: [(u) => tip(u, kind, format)] },
  };
}

// The figures at the cursor, in place of the last ones.
function tip(u, kind, format) {
  const at = u.cursor.idx;
  const legend = $(kind + "-legend");
  if (at === null || at === undefined) return;
  SERIES[kind].forEach(([, label], n) => {
    const node = legend.children[n];
    if (node) set(node, label + " " + format(u.data[n + 1][at]));
  });
}

function replot() {
  for (const kind of Object.keys(plots)) {
    plots[kind].destroy();
    delete plots[kind];
  }
}

// ---- sections --------------------------------------------------------------------------------------------------------

const scopeName = () => (state.scope === "all" ? "all sites" : state.scope);

function choose(scope) {
  state.scope = scope;
  $("scope").value = scope;
  $("overview").scrollIntoView();
  show();
}

function scopes(doc) {
  const groups = [["", [["all", "All sites"]]], ["Sites", doc.sites.map((row) => [scopeOf.site(row), row.name])], ["Routes", doc.routes.map((row) => [scopeOf.route(row), row.site + " " + row.name])], ["Pools", doc.pools.map((row) => [scopeOf.pool(row), row.name])]];
  const text = JSON.stringify(groups);
  const select = $("scope");
  if (select.text === text) return;
  select.text = text;
  select.replaceChildren(...groups.filter(([, all]) => all.length).map(([name, all]) => {
    const made = all.map(([value, label]) => element("option", { value }, label || "(without a name)"));
    return name ? element("optgroup", { label: name }, ...made) : made[0];
  }));
  if (![...select.options].some((option) => option.value === state.scope)) state.scope = "all";
  select.value = state.scope;
}

function tiles(doc) {
  const now = change(state.scope, WINDOW);
  const row = state.documents[state.documents.length - 1].rows.get(state.scope) || {};
  const steps = now ? now.steps("total") : [];
  const isPool = state.scope.startsWith("pool ");
  const failed = now && now.rps ? now.classes["5xx"] / now.rps : 0;
  const all = [
    ["Requests", now ? F.rate(now.rps) : "–", "per second"],
    ["Server errors", now ? F.percent(failed) : "–", now ? F.rate(now.classes["5xx"]) + " per second" : "", failed > 0.01],
    ["Median", F.duration(F.quantile(steps, 0.5)), "p50"],
    ["Slow", F.duration(F.quantile(steps, 0.99)), "p99"],
    isPool ? ["In flight", F.number(row.in_flight), row.queued ? row.queued + " queued" : ""] : ["In flight", F.number(doc.requests.total), "all sites"],
    isPool ? ["Endpoints", row.active + " of " + row.endpoint_count, "up"] : ["Connections", F.number(row.connections ?? doc.process.connections.active), "of clients"],
    ["Sent", now ? F.bytes(now.per("bytes_out")) + "/s" : "–", isPool ? "by endpoints" : "to clients"],
  ];
  keyed($("tiles"), all, ([name]) => name, () => element("div", {}, element("dt"), element("dd", {}, element("span"), element("small"))), (node, [name, value, small, bad]) => {
    set(node.firstElementChild, name);
    set(node.lastElementChild.firstElementChild, value);
    set(node.lastElementChild.lastElementChild, small || "");
    setClass(node, bad ? "bad" : "");
  });
}

const cached = new Map(); // per show(): key → change over the window
const recent = (key) => {
  if (!cached.has(key)) cached.set(key, change(key, WINDOW));
  return cached.get(key);
};
const q = (key, at, phase = "total") => {
  const now = recent(key);
  return now ? F.quantile(now.steps(phase), at) : null;
};

function frontColumns(name, kind) {
  const key = scopeOf[kind];
  const column = (title, by, write, more = {}) => ({ title, number: true, by: (row) => by(row), of: (row) => ({ text: write(by(row)) }), ...more });
  const rps = (of) => (row) => (recent(key(row)) ? of(recent(key(row))) : null);
  return [
    { title: name, of: (row, cell) => {
      let button = cell.querySelector("button");
      if (!button) {
        button = element("button", { type: "button", class: "link", title: "Show it in the plots" });
        cell.append(button, element("small"));
      }
      button.onclick = () => choose(key(row));
      set(button, kind === "route" ? row.name : row.name || "(without a name)");
      set(cell.lastElementChild, kind === "route" ? row.site : row.mode + (row.paused ? ", paused" : ""));
    } },
    column("Requests/s", rps((now) => now.rps), F.rate),
    column("4xx/s", rps((now) => now.classes["4xx"]), F.rate),
    { ...column("5xx/s", rps((now) => now.classes["5xx"]), F.rate), of: (row) => { const value = rps((now) => now.classes["5xx"])(row); return { text: F.rate(value), bad: value > 0 }; } },
    column("TTFB p50", (row) => q(key(row), 0.5, "first_byte"), F.duration),
    column("p50", (row) => q(key(row), 0.5), F.duration),
    column("p95", (row) => q(key(row), 0.95), F.duration),
    column("p99", (row) => q(key(row), 0.99), F.duration),
    column("Sent/s", rps((now) => now.per("bytes_out")), F.bytes),
    column("Requests", (row) => row.requests, F.number),
  ];
}

const SITES = [...frontColumns("Site", "site"), { title: "Connections", number: true, by: (row) => row.connections, of: (row) => F.number(row.connections) }];
const ROUTES = frontColumns("Route", "route");

const STATES = { up: ["up", "good"], down: ["down", "bad"], draining: ["draining", "warn"], maintenance: ["disabled", "idle"] };

function checkText(endpoint) {
  const { check } = endpoint;
  if (!check) return { text: "–", small: endpoint.fails ? endpoint.fails + " failures lately" : "not checked" };
  const code = check.last_code ? " " + check.last_code : "";
  return { text: check.last_status + code, small: check.last_text && check.last_status !== "INI" ? check.last_text.slice(0, 60) + (check.last_duration_ms ? ", " + check.last_duration_ms + " ms" : "") : check.last_status === "INI" ? "the first check is to come" : check.last_duration_ms + " ms" };
}

function endpointColumns() {
  const key = (item) => "endpoint " + endpointKey(item.pool, item.endpoint);
  const figure = (title, by, write) => ({ title, number: true, by, of: (item) => write(by(item)) });
  return [
    { title: "Endpoint", of: ({ endpoint }) => ({ text: endpoint.name, small: [endpoint.name === endpoint.address ? "" : endpoint.address, endpoint.host || "", endpoint.tls ? "TLS" : "", endpoint.backup ? "backup" : ""].filter(Boolean).join(" · ") }) },
    { title: "State", of: ({ endpoint }, cell) => {
      const [text, kind] = STATES[endpoint.state] || [endpoint.state, "idle"];
      pill(cell, text, kind).title = "for " + F.span(endpoint.last_change_ms) + (endpoint.asked === "as_configured" ? "" : ", asked for while running: " + endpoint.asked);
    } },
    { title: "Check", of: ({ endpoint }) => checkText(endpoint) },
    { title: "Weight", number: true, by: (item) => item.endpoint.weight, of: ({ endpoint }) => ({ text: endpoint.weight, small: endpoint.weight === endpoint.weight_configured ? "" : "written: " + endpoint.weight_configured }) },
    { title: "Share", number: true, by: (item) => item.share, of: (item, cell) => {
      if (!cell.firstChild) cell.append(element("span"), element("span", { class: "share", "aria-hidden": "true" }, element("i")));
      set(cell.firstElementChild, F.percent(item.share));
      cell.lastElementChild.firstElementChild.style.width = Math.round((item.share || 0) * 100) + "%";
    } },
    figure("In flight", (item) => item.endpoint.in_flight, F.number),
    figure("Requests/s", (item) => (recent(key(item)) ? recent(key(item)).per("attempts") : null), F.rate),
    { title: "TTFB p50", number: true, by: (item) => q(key(item), 0.5, "first_byte"), of: (item) => { const connect = q(key(item), 0.5, "connect"); return { text: F.duration(q(key(item), 0.5, "first_byte")), small: connect === null ? "" : "connect " + F.duration(connect) }; } },
    figure("TTFB p99", (item) => q(key(item), 0.99, "first_byte"), F.duration),
    { title: "Errors/s", number: true, by: (item) => (recent(key(item)) ? recent(key(item)).errors + (recent(key(item)).classes["5xx"] || 0) : 0), of: (item) => { const now = recent(key(item)); const value = now ? now.errors + now.classes["5xx"] : null; return { text: F.rate(value), bad: value > 0 }; } },
    { title: "Actions", hidden: true, wide: true, class: "actions-cell", of: (item, cell) => actions(item, cell) },
  ];
}
const ENDPOINTS = endpointColumns();

function actions(item, cell) {
  const write = state.documents[state.documents.length - 1].doc.write;
  if (!write) {
    if (cell.firstChild) cell.replaceChildren();
    return;
  }
  if (!cell.firstChild) {
    const button = (name) => element("button", { type: "button", "data-do": name });
    cell.append(element("div", { class: "actions" }, button("serve"), button("drain"), button("weight")));
  }
  const { pool, endpoint } = item;
  const [serve, drain, weight] = cell.querySelectorAll("button");
  const name = endpoint.name + " of " + pool.name;
  const give = (button, text, act) => {
    set(button, text);
    button.setAttribute("aria-label", text + " " + name);
    button.onclick = act;
  };
  const isOff = endpoint.state === "maintenance";
  give(serve, isOff ? "Enable" : "Disable", () => (isOff ? post(pool, endpoint, { do: "ready" }, name + " is in service") : ask({ title: "Disable " + name + "?", text: "It takes no request any more, bound ones included. Requests that have begun there end there.", yes: "Disable" }, () => post(pool, endpoint, { do: "maintenance" }, name + " is out of service"))));
  const isDraining = endpoint.state === "draining" || endpoint.asked === "drain";
  give(drain, isDraining ? "Undrain" : "Drain", () => (isDraining ? post(pool, endpoint, { do: "ready" }, name + " is in service") : post(pool, endpoint, { do: "drain" }, name + " is draining")));
  drain.disabled = isOff;
  give(weight, "Weight", () => ask({ title: "Weight of " + name, text: "Its share of new requests beside the other endpoints; 0: none. The configuration says " + endpoint.weight_configured + ".", yes: "Set", weight: endpoint.weight }, (value) => post(pool, endpoint, value === null ? { do: "weight_as_configured" } : { do: "weight", weight: value }, "The weight of " + name + " is changed")));
}

const phase = (key, name) => {
  const now = recent(key);
  return now ? F.duration(F.quantile(now.steps(name), 0.5)) + " / " + F.duration(F.quantile(now.steps(name), 0.99)) : "–";
};

function pools(doc) {
  const wanted = $("pools-filter").value.trim().toLowerCase();
  const shown = doc.pools.filter((pool) => !wanted || pool.name.toLowerCase().includes(wanted) || pool.endpoints.some((e) => (e.name + " " + e.address).toLowerCase().includes(wanted)));
  const box = $("pools");
  keyed(box, shown, (pool) => pool.name, (pool) => {
    const summary = element("summary", {}, element("span", { class: "name" }), element("span", { class: "pill" }), ...Array.from({ length: 6 }, () => element("span", { class: "figure" }, element("b"), " ")));
    const node = element("details", { class: "pool", open: shown.length <= 12 }, summary, element("p", { class: "phases" }), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Endpoints of " + pool.name }, element("table", { class: "stack", id: "endpoints of " + pool.name }, element("thead"), element("tbody"))));
    node.addEventListener("toggle", () => show());
    return node;
  }, (node, pool) => {
    const key = scopeOf.pool(pool);
    const now = recent(key);
    const [name, up, ...figures] = node.firstElementChild.children;
    set(name, pool.name);
    const usable = pool.active || pool.backups;
    set(up, pool.endpoint_count ? `${pool.active} of ${pool.endpoint_count} up` : "no endpoint");
    setClass(up, "pill " + (pool.active === pool.endpoint_count ? "good" : usable ? "warn" : "bad"));
    const each = [[now ? F.rate(now.rps) : "–", "requests/s"], [F.duration(q(key, 0.5, "first_byte")), "p50"], [F.duration(q(key, 0.99, "first_byte")), "p99"], [F.number(pool.in_flight), "in flight"], [F.number(pool.queued), "queued"], [now ? F.rate(now.errors + now.classes["5xx"]) : "–", "errors/s"]];
    figures.forEach((figure, at) => {
      set(figure.firstElementChild, each[at][0]);
      if (figure.lastChild.nodeValue !== " " + each[at][1]) figure.lastChild.nodeValue = " " + each[at][1];
    });
    if (!node.open) return;
    const phases = [["Balance", pool.balance], ["Connect p50/p99", phase(key, "connect")], ["TTFB p50/p99", phase(key, "first_byte")], ["Transfer", phase(key, "transfer")], ["Whole", phase(key, "total")], ["Retries/s", now ? F.rate(now.per("retries") + now.per("redispatches")) : "–"], ["Connections reused", now ? F.percent(reuse(now)) : "–"]];
    keyed(node.children[1], phases, ([title]) => title, () => element("span"), (child, [title, value]) => set(child, title + ": " + value));
    const sums = pool.endpoints.map((endpoint) => recent("endpoint " + endpointKey(pool, endpoint)));
    const all = sums.reduce((sum, one) => sum + (one ? one.per("attempts") : 0), 0);
    const items = pool.endpoints.map((endpoint, at) => ({ pool, endpoint, share: sums[at] && all ? sums[at].per("attempts") / all : 0 }));
    table(node.querySelector("table"), ENDPOINTS, items, (item) => endpointKey(pool, item.endpoint), pool.endpoint_count ? "Too many endpoints to show all: filter by the pool's name." : "This pool has no endpoints.");
  });
  if (!doc.pools.length) {
    if (!box.querySelector(".none-pools")) box.append(element("p", { class: "muted none-pools" }, "This configuration has no pools."));
  } else box.querySelector(".none-pools")?.remove();
}

const reuse = (now) => {
  const [reuses, connects] = [now.per("reuses"), now.per("connects")];
  return reuses + connects ? reuses / (reuses + connects) : null;
};

const STAGES = { here: "in Weir", connecting: "connecting", waiting: "waiting for the head", transferring: "transferring" };
const who = { title: "Client", of: (row) => row.client || "unix socket" };
const where = { title: "Site", of: (row) => row.site || "–" };
const asked = { title: "Request", of: (row, cell) => {
  if (!cell.firstChild) cell.append(element("span", { class: "target" }));
  set(cell.firstChild, row.method ? row.method + " " + row.target : "session");
} };
const to = { title: "Endpoint", of: (row) => ({ text: row.endpoint || "–", small: row.pool || "" }) };
const REQUESTS = {
  in_flight: [asked, { title: "Age", number: true, by: (row) => row.age_us, of: (row) => F.duration(row.age_us) }, { title: "Stage", of: (row) => STAGES[row.stage] || row.stage }, where, who, to, { title: "Worker", number: true, of: (row) => row.worker }],
  slowest: [asked, { title: "Took", number: true, by: (row) => row.took_us, of: (row) => F.duration(row.took_us) }, { title: "Status", number: true, of: (row) => ({ text: row.status || "–", bad: row.status >= 500 }) }, where, who, to, { title: "Ended", number: true, by: (row) => row.ended_unix_ms, of: (row) => ago(row) }],
  failed: [asked, { title: "Status", number: true, of: (row) => ({ text: row.status || "–", bad: true }) }, { title: "Why", of: (row) => ({ text: why(row.ending), small: row.ending + (row.attempts > 1 ? ", " + row.attempts + " attempts" : "") }) }, { title: "Took", number: true, by: (row) => row.took_us, of: (row) => F.duration(row.took_us) }, where, who, to, { title: "Ended", number: true, by: (row) => row.ended_unix_ms, of: (row) => ago(row) }],
};
const NOTES = {
  in_flight: "What is being served at this moment, the oldest first. Those of this page are left out.",
  slowest: "The slowest of each of the last five minutes.",
  failed: "Answered with 5xx, or broken off by an endpoint or by Weir itself: the last of each worker.",
};
const EMPTY = { in_flight: "Nothing is being served at this moment.", slowest: "No request has ended in the last five minutes.", failed: "No request has failed lately." };

const ago = (row) => F.span(Math.max(0, state.documents[state.documents.length - 1].doc.now_unix_ms - row.ended_unix_ms)) + " ago";

// HAProxy's two letters in words.
function why(ending) {
  const first = { "S": "the endpoint broke off", s: "the endpoint was too slow", P: "Weir refused", R: "out of resources", D: "its endpoint went down", U: "a better endpoint came up", K: "an operator ended it", L: "answered by Weir", C: "the client left", c: "the client was too slow" }[ending[0]];
  const then = { R: "at the request", Q: "in the queue", C: "while connecting", H: "before the head", D: "during the body" }[ending[1]];
  return first ? first + (then && ending[0] !== "L" ? " " + then : "") : "the endpoint said so";
}

function requests(doc) {
  for (const tab of Object.keys(REQUESTS)) {
    const count = tab === "in_flight" ? doc.requests.total : doc.requests[tab].length;
    set($("tab-" + tab).querySelector(".count"), count ? "(" + F.number(count) + ")" : "");
  }
  const node = $("requests");
  const { tab } = state;
  if (node.shows !== tab) {
    node.shows = tab;
    node.tHead.replaceChildren();
    node.tBodies[0].replaceChildren();
    node.tBodies[0].kept = new Map();
    delete state.sort.requests;
  }
  const all = doc.requests[tab];
  const more = tab === "in_flight" && doc.requests.total > all.length ? ` ${F.number(doc.requests.total)} in all, ${all.length} shown.` : "";
  const silent = doc.requests.silent_workers ? ` ${doc.requests.silent_workers} workers were too busy to say.` : "";
  set($("requests-note"), NOTES[tab] + more + silent);
  all.forEach((row, at) => (row.key = [row.client, row.method, row.target, row.ended_unix_ms || at, row.took_us || 0].join(" ")));
  table("requests", REQUESTS[tab], all, (row) => row.key, EMPTY[tab]);
}

function meters(doc) {
  const { process } = doc;
  const all = [];
  const add = (name, used, limit, write) => limit && all.push({ name, used, limit, write });
  add("Memory", process.memory_in_use, process.memory_budget, F.bytes);
  add("Descriptors", process.descriptors, process.descriptor_limit, F.number);
  add("Connections", process.connections.active, process.max_connections, F.number);
  for (const site of doc.sites) if (site.connections_limit !== process.max_connections) add("Site " + site.name, site.connections, site.connections_limit, F.number);
  for (const pool of doc.pools) for (const endpoint of pool.endpoints) add(pool.name + "/" + endpoint.name, endpoint.in_flight, endpoint.limit, F.number);
  all.sort((a, b) => b.used / b.limit - a.used / a.limit);
  keyed($("limits"), all.slice(0, 8), (one) => one.name, () => element("div", { class: "meter" }, element("div", {}, element("span"), element("span", { class: "muted" })), element("div", { class: "track", "aria-hidden": "true" }, element("i"))), (node, one) => {
    const share = Math.min(1, one.used / one.limit);
    set(node.firstElementChild.firstElementChild, one.name);
    set(node.firstElementChild.lastElementChild, one.write(one.used) + " of " + one.write(one.limit));
    node.lastElementChild.firstElementChild.style.width = (share * 100).toFixed(1) + "%";
    setClass(node, "meter" + (share > 0.95 ? " bad" : share > 0.8 ? " warn" : ""));
  });
}

function system(doc) {
  const { process } = doc;
  const time = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString() : "never");
  facts("configuration", [["Version", process.plan], ["Reloads", process.reloads], ["Refused", process.reloads_failed], ["Last reload", time(process.last_reload_unix)], ["In memory", process.plans]]);
  facts("workers", [["Workers", process.workers], ["I/O", process.driver.split(" ")[0]], ["Uptime", F.span(process.uptime_ms)], ["Process", process.pid], ["Weir", process.version], ["Resident memory", F.bytes(process.resident_bytes)], ["Panics", process.panics], ["Workers begun anew", process.worker_deaths], ["Requests shed", F.number(process.shed)], ["Log lines lost", F.number(process.dropped_logs)]]);
  const handshakes = state.documents.length > 1 ? (() => { const [now, old] = [doc.process.tls, before(WINDOW).doc.process.tls]; const time = (state.documents[state.documents.length - 1].at - before(WINDOW).at) / 1000; return [(now.full - old.full) / time, (now.resumed - old.resumed) / time, (now.failed - old.failed) / time]; })() : [null, null, null];
  facts("tls", [["Connections", F.number(process.tls.current)], ["Full handshakes/s", F.rate(handshakes[0])], ["Resumed/s", F.rate(handshakes[1])], ["Failed/s", F.rate(handshakes[2])], ["Handshakes", F.number(process.tls.full + process.tls.resumed)]]);
  keyed($("certificates"), doc.certificates, (one) => one.name, () => element("li"), (node, one) => set(node, one.name + (one.given ? " (replaced while running)" : "")));
  const looked = doc.sites.reduce((sum, site) => [sum[0] + site.cache_lookups, sum[1] + site.cache_hits], [0, 0]);
  const caches = doc.memory_caches.map((cache) => [cache.name, F.bytes(cache.bytes) + " of " + F.bytes(cache.bytes_limit) + ", " + F.number(cache.responses)]);
  facts("caches", looked[0] || caches.length ? [["Lookups", F.number(looked[0])], ["Hits", looked[0] ? F.percent(looked[1] / looked[0]) : "–"], ...caches] : [["In memory", "none"]]);
  meters(doc);
  versions(doc.api);
  table("listeners", LISTENERS, doc.listeners, (row) => row.name + row.protocol, "This configuration has no listeners.");
}

const LISTENERS = [
  { title: "Listener", of: (row) => ({ text: row.name, small: row.protocol }) },
  { title: "State", of: (row, cell) => void pill(cell, row.state, row.state === "open" ? "good" : row.state === "full" ? "bad" : "warn") },
  { title: "Connections", number: true, by: (row) => row.connections, of: (row) => ({ text: F.number(row.connections), small: row.connections_limit ? "of " + F.number(row.connections_limit) : "" }) },
  { title: "Peak", number: true, by: (row) => row.connections_peak, of: (row) => F.number(row.connections_peak) },
  { title: "Accepted", number: true, by: (row) => row.connections_total, of: (row) => F.number(row.connections_total) },
  { title: "Requests", number: true, by: (row) => row.requests, of: (row) => F.number(row.requests) },
  { title: "TLS handshakes", number: true, by: (row) => row.tls.full + row.tls.resumed, of: (row) => ({ text: F.number(row.tls.full + row.tls.resumed), small: row.tls.failed ? F.number(row.tls.failed) + " failed" : "" }) },
];

// Versions of the configuration: there where the admin API serves this page.
function versions(api) {
  $("versions-box").hidden = !api || !state.versions;
  if (!api) return;
  if (state.version !== api.version) {
    state.version = api.version;
    call(api.path + "/versions").then((all) => { state.versions = all; show(); }, (error) => notice("The versions cannot be read: " + error.message));
  }
  if (state.versions) table("versions", api.configure ? VERSIONS : VERSIONS_READ, state.versions, (row) => row.version, "No version is kept.");
}

async function call(path, options) {
  const answer = await fetch(path, { cache: "no-store", ...options });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.detail || "status " + answer.status);
  return said;
}

const isCurrent = (row) => row.version === state.version;
const countOf = (all) => (all.length === 1 ? "1 difference" : all.length + " differences");

async function compare(row) {
  try {
    const { changes } = await call(`/v1/versions/${row.version}/diff`);
    ask({ title: `From version ${row.version} to ${state.version}`, text: changes.length ? countOf(changes) + "." : "Nothing is different, but for secrets, which are not shown.", changes }, () => {});
  } catch (error) {
    notice("Not compared: " + error.message);
  }
}

async function goBack(row) {
  const path = `/v1/versions/${row.version}/rollback`;
  const post = (query, tag) => call(path + query, { method: "POST", headers: { "If-Match": tag } });
  try {
    const version = state.version;
    const { changes } = await post("?dry_run=true", `"${version}"`);
    ask({ title: `Roll back to version ${row.version}?`, text: changes.length ? "This would change:" : "This changes nothing that is shown.", changes, yes: "Roll back" }, async () => {
      try {
        const done = await post("", `"${version}"`);
        notice(`Version ${done.version} is in force, with what version ${row.version} decided.`, true);
      } catch (error) {
        notice("Not rolled back: " + error.message);
      }
      await look();
    });
  } catch (error) {
    notice("Not rolled back: " + error.message);
  }
}

const VERSIONS_READ = [
  { title: "Version", of: (row) => ({ text: String(row.version), small: isCurrent(row) ? "in force" : "" }) },
  { title: "Since", of: (row) => new Date(row.since).toLocaleString() },
  { title: "Who", of: (row) => ({ text: row.who, small: row.what }) },
  { title: "Changes", of: (row) => ({ text: row.changes.length ? row.changes[0] : "–", small: row.changes.length > 1 ? "and " + (row.changes.length - 1) + " more" : "" }), class: "target", wide: true },
  { title: "Actions", hidden: true, wide: true, class: "actions-cell", of: (row, cell) => versionActions(row, cell, false) },
];
const VERSIONS = [...VERSIONS_READ.slice(0, -1), { ...VERSIONS_READ[4], of: (row, cell) => versionActions(row, cell, true) }];

function versionActions(row, cell, may) {
  if (!cell.firstChild) {
    const button = (text, act) => element("button", { type: "button", "aria-label": `${text} version ${row.version}`, onclick: act }, text);
    cell.append(element("div", { class: "actions" }, button("Compare", () => compare(row)), may ? button("Roll back", () => goBack(row)) : null));
  }
  cell.querySelectorAll("button").forEach((button) => (button.disabled = isCurrent(row)));
}

function show() {
  const newest = state.documents[state.documents.length - 1];
  if (!newest) return;
  const { doc } = newest;
  cached.clear();
  set($("node"), doc.process.node);
  document.title = doc.process.node + " – Weir";
  scopes(doc);
  tiles(doc);
  plot("rate", F.rate);
  plot("latency", F.duration);
  const about = state.documents.length > 1 ? Math.round((newest.at - before(WINDOW).at) / 1000) : 0;
  set($("window-note"), about ? `Rates and percentiles are of the last ${about} seconds, those of the latency plot of the last 5.` : "Rates and percentiles come with the second answer.");
  const wanted = $("sites-filter").value.trim().toLowerCase();
  table("sites", SITES, doc.sites.filter((site) => site.name.toLowerCase().includes(wanted)), (row) => row.name, "This configuration has no sites.");
  const routes = doc.routes.filter((route) => (route.site + " " + route.name).toLowerCase().includes(wanted));
  $("routes-box").hidden = !routes.length;
  table("routes", ROUTES, routes, (row) => row.site + "\u0000" + row.name, "");
  pools(doc);
  requests(doc);
  system(doc);
}

// ---- asking ----------------------------------------------------------------------------------------------------------

const base = new URL(".", document.baseURI);

function live(text, kind) {
  set($("live"), text);
  setClass($("live"), "pill " + kind);
}

let noticeTimer;
function notice(text, good) {
  const node = $("notice");
  clearTimeout(noticeTimer);
  set(node, text);
  setClass(node, good ? "good" : "");
  node.hidden = !text;
  if (good) noticeTimer = setTimeout(() => (node.hidden = true), 4000);
}

function question() {
  const url = new URL("status.json", base);
  const filter = $("pools-filter").value.trim();
  const newest = state.documents[state.documents.length - 1];
  const few = newest ? newest.doc.pools.filter((pool) => filter && pool.name.toLowerCase().includes(filter.toLowerCase())).slice(0, 5) : [];
  for (const pool of few) url.searchParams.append("pool", pool.name);
  if (state.scope.startsWith("pool ")) url.searchParams.append("pool", state.scope.slice(5));
  return url;
}

async function look() {
  const begun = performance.now();
  try {
    const answer = await fetch(question(), { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!answer.ok) throw new Error("status " + answer.status);
    const doc = await answer.json();
    if (doc.format !== 1) throw new Error("another version of Weir answered: load this page again");
    const last = state.documents[state.documents.length - 1];
    // Another process began its counts anew.
    if (last && (last.doc.process.pid !== doc.process.pid || last.doc.process.started_unix !== doc.process.started_unix)) state.documents = [];
    state.documents.push({ at: doc.now_unix_ms, doc, rows: indexed(doc) });
    while (state.documents.length > WINDOW + 2) state.documents.shift();
    state.failures = 0;
    live(doc.process.stopping ? "draining" : "live", doc.process.stopping ? "warn" : "good");
    remember();
    show();
  } catch (error) {
    state.failures += 1;
    live("no answer", "bad");
    if (state.failures === 3) notice("Weir does not answer (" + error.message + "). This page goes on asking.");
    return;
  } finally {
    window.lookTook = performance.now() - begun;
  }
  if (!$("notice").hidden && $("notice").className === "" && $("notice").textContent.startsWith("Weir does not answer")) notice("");
}

async function loop() {
  for (;;) {
    // A page that nobody looks at asks for nothing.
    if (!state.paused && !document.hidden) await look();
    await new Promise((done) => setTimeout(done, EVERY * Math.min(5, 1 + state.failures)));
  }
}

async function post(pool, endpoint, wanted, done) {
  try {
    const answer = await fetch(new URL("change", base), { method: "POST", headers: { "Content-Type": "application/json", "X-Weir-Dashboard": "1" }, body: JSON.stringify({ pool: pool.name, endpoint: endpoint.name, ...wanted }) });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.error || "status " + answer.status);
    notice(done + ".", true);
  } catch (error) {
    notice("Not changed: " + error.message);
  }
  await look();
}

function ask({ title, text, yes, weight, changes }, then) {
  const dialog = $("ask");
  set($("ask-title"), title);
  set($("ask-text"), text);
  $("ask-yes").hidden = !yes;
  if (yes) set($("ask-yes"), yes);
  set($("ask-no"), yes ? "Cancel" : "Close");
  dialog.classList.toggle("wide", Boolean(changes));
  $("ask-changes").hidden = !changes || !changes.length;
  $("ask-changes").replaceChildren(...(changes || []).map((line) => element("div", { class: line.startsWith("+") ? "more" : line.startsWith("-") ? "less" : "" }, line)));
  const input = $("ask-weight");
  const weighs = weight !== undefined;
  $("ask-weight-label").hidden = $("ask-reset").hidden = !weighs;
  input.disabled = !weighs;
  if (weighs) input.value = weight;
  const opener = document.activeElement;
  dialog.returnValue = "no";
  dialog.onclose = () => {
    opener?.focus?.();
    if (dialog.returnValue === "yes") then(weighs ? Number(input.value) : undefined);
    if (dialog.returnValue === "reset") then(null);
  };
  dialog.showModal();
  if (weighs) input.select();
}

// ---- controls --------------------------------------------------------------------------------------------------------

const themes = ["auto", "light", "dark"];
const system_dark = matchMedia("(prefers-color-scheme: dark)");
const stored = { get: () => { try { return localStorage.getItem("weir-theme"); } catch { return null; } }, set: (value) => { try { localStorage.setItem("weir-theme", value); } catch { /* it is chosen for this time */ } } };
let theme = themes.includes(stored.get()) ? stored.get() : "auto";

function dress() {
  const dark = theme === "dark" || (theme === "auto" && system_dark.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  set($("theme"), "Theme: " + theme);
  replot();
  show();
}

function pause() {
  state.paused = !state.paused;
  $("pause").setAttribute("aria-pressed", state.paused);
  set($("pause"), state.paused ? "Go on" : "Pause");
  if (state.paused) live("paused", "warn");
}

function nextTheme() {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  stored.set(theme);
  dress();
}

function openTab(tab) {
  state.tab = tab;
  for (const name of Object.keys(REQUESTS)) {
    $("tab-" + name).setAttribute("aria-selected", name === tab);
    $("tab-" + name).tabIndex = name === tab ? 0 : -1;
  }
  $("request-panel").setAttribute("aria-labelledby", "tab-" + tab);
  show();
}

$("pause").addEventListener("click", pause);
$("theme").addEventListener("click", nextTheme);
$("scope").addEventListener("change", (event) => {
  state.scope = event.target.value;
  show();
});
for (const id of ["sites-filter", "pools-filter"]) $(id).addEventListener("input", show);
for (const tab of Object.keys(REQUESTS)) $("tab-" + tab).addEventListener("click", () => openTab(tab));
$("request-tabs").addEventListener("keydown", (event) => {
  const all = Object.keys(REQUESTS);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const to = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1 : step ? (all.indexOf(state.tab) + step + all.length) % all.length : -1;
  if (to < 0) return;
  event.preventDefault();
  openTab(all[to]);
  $("tab-" + all[to]).focus();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  const sections = ["overview", "sites-section", "pools-section", "requests-section", "system-section"];
  if (event.key === "p") pause();
  else if (event.key === "t") nextTheme();
  else if (event.key === "/") $("pools-filter").focus();
  else if (sections[event.key - 1]) {
    $(sections[event.key - 1]).scrollIntoView();
    $(sections[event.key - 1]).focus({ preventScroll: true });
  } else return;
  event.preventDefault();
});
system_dark.addEventListener("change", dress);
new ResizeObserver(() => {
  for (const [kind, one] of Object.entries(plots)) {
    const box = $(kind + "-plot");
    if (box.clientWidth && one.width !== box.clientWidth) one.setSize({ width: box.clientWidth, height: box.clientHeight });
  }
}).observe($("rate-plot"));
dress();
loop();
