"use strict";
// Draws what the page's data say. Texts go in as text alone: names of topics and clusters are anybody's.
(() => {
  const clusters = JSON.parse(document.getElementById("data").textContent);
  // Okabe and Ito's colours: told apart by the colour-blind, on light and dark ground.
  const COLOURS = { observed: "#0072b2", kafka: "#e69f00", kraft: "#cc79a7", naive: "#d55e00" };
  const SCHEMES = Object.keys(COLOURS);
  const ramp = d3.interpolateViridis;

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const nothing = (why) => make("p", { class: "nothing" }, why);
  const width = (where) => Math.max(260, Math.min(1160, where.clientWidth));
  const colours = { domain: SCHEMES, range: SCHEMES.map((one) => COLOURS[one]) };
  const schemesOf = (held) => SCHEMES.filter((one) => held.has(one));
  const plot = (where, label, options) =>
    Plot.plot({ width: width(where), height: 260, marginLeft: 48, ariaLabel: label, style: { background: "none", fontSize: "12px" }, ...options });
  const ids = (values) => (values.length > 30 ? values.filter((_, i) => i % Math.ceil(values.length / 20) === 0) : values);
  const brokerScale = (values, label) => ({ label, domain: values, type: "band", ticks: ids(values), tickFormat: String, tickRotate: values.length > 12 ? -60 : 0 });

  const charts = {
    leaders(cluster, where) {
      const rows = cluster.brokers;
      if (!rows.length) return nothing("No broker is known to live.");
      const mean = d3.mean(rows, (d) => d.leaders);
      return plot(where, "Leaders of each broker", {
        marginBottom: 50,
        x: brokerScale(rows.map((d) => d.broker_id), "broker"),
        y: { label: "leaders", grid: true },
        marks: [
          Plot.barY(rows, { x: "broker_id", y: "leaders", fill: COLOURS.observed, tip: true, title: (d) => `broker ${d.broker_id}: ${d.leaders} leaders, ${d.replicas} replicas${d.rack === null ? "" : `, rack ${d.rack}`}` }),
          Plot.ruleY([mean], { stroke: "currentColor", strokeDasharray: "5,4" }),
          Plot.text([mean], { y: (d) => d, text: (d) => `mean ${d.toFixed(1)}`, frameAnchor: "right", dy: -7, fill: "currentColor", stroke: "var(--card)", strokeWidth: 3 }),
        ],
      });
    },
    worst(cluster, where) {
      const rows = Object.entries(cluster.worst).flatMap(([scheme, held]) => held.map(([failed, ratio]) => ({ scheme, failed, ratio })));
      if (!rows.length) return nothing("No death leaves a survivor that leads anything.");
      const schemes = schemesOf(new Set(rows.map((d) => d.scheme)));
      const failed = [...new Set(rows.map((d) => d.failed))].sort(d3.ascending);
      return plot(where, "The worst survivor of each broker's death", {
        marginBottom: 50,
        color: { ...colours, legend: true },
        symbol: { domain: SCHEMES, legend: false },
        x: brokerScale(failed, "broker that dies"),
        y: { label: "worst survivor / mean", grid: true, nice: true },
        marks: [
          Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "5,4" }),
          Plot.dot(rows.filter((d) => schemes.includes(d.scheme)), { x: "failed", y: "ratio", stroke: "scheme", symbol: "scheme", r: failed.length > 60 ? 2 : 4, tip: true, title: (d) => `${d.scheme}: broker ${d.failed} dies, the worst survivor leads ${d.ratio.toFixed(2)} times the mean` }),
        ],
      });
    },
    takeovers(cluster) {
      const { ids: brokers, schemes } = cluster.takeovers;
      const held = SCHEMES.filter((one) => schemes[one]);
      if (!held.length) return nothing("Nobody takes over from anybody: each partition has one replica, or there is one broker.");
      const most = d3.max(held, (one) => d3.max(schemes[one]));
      const colour = d3.scaleSequentialSqrt([0, most], ramp);
      const say = (scheme) => (x, y, value) => `${scheme}: if broker ${brokers[x]} dies, broker ${brokers[y]} takes over ${value} partitions`;
      const heats = held.map((scheme) => heat(scheme, brokers, (x, y) => schemes[scheme][x * brokers.length + y], colour, say(scheme)));
      return make("div", {}, make("div", { class: "heats" }, ...heats), rampOf(colour, "0", `${most} partitions`));
    },
    pairs(cluster) {
      const rows = cluster.pairs;
      if (!rows.length) return nothing("There are fewer than three brokers, or more pairs than failures.most_pairs.");
      const brokers = [...new Set(rows.flatMap((d) => [d[0], d[1]]))].sort(d3.ascending);
      const place = new Map(brokers.map((id, i) => [id, i]));
      const n = brokers.length, grid = new Array(n * n).fill(null);
      for (const row of rows) {
        grid[place.get(row[0]) * n + place.get(row[1])] = row;
        grid[place.get(row[1]) * n + place.get(row[0])] = row;
      }
      const ratios = rows.map((d) => d[2]).filter((d) => d !== null);
      const colour = d3.scaleSequential([1, Math.max(1.001, d3.max(ratios) ?? 1)], ramp);
      const one = heat("as it is", brokers, (x, y) => grid[x * n + y]?.[2] ?? null, colour, (x, y) => {
        const row = grid[x * n + y];
        if (!row) return "";
        const ratio = row[2] === null ? "nobody is left to lead" : `the worst survivor leads ${row[2].toFixed(2)} times the mean`;
        return `brokers ${brokers[x]} and ${brokers[y]} die: ${ratio}, ${row[3]} partitions newly offline, ${row[4]} refuse acks=all`;
      }, (x, y) => (grid[x * n + y]?.[3] ?? 0) > 0);
      const offline = rows.filter((d) => d[3] > 0).length;
      const key = make("p", { class: "muted" }, `${offline} of ${rows.length} pairs take partitions offline`, offline ? " (crossed cells)." : ".");
      return make("div", {}, one, rampOf(colour, "1.00", `${colour.domain()[1].toFixed(2)} times the mean`), key);
    },
    racks(cluster, where) {
      const rows = cluster.racks.map((d) => ({ ...d, rack: d.scenario.replace(/^rack:/, "") })).sort((a, b) => SCHEMES.indexOf(a.scheme) - SCHEMES.indexOf(b.scheme));
      if (!rows.length) return nothing("No racks are known.");
      const known = rows.filter((d) => d.leaders_worst_over_mean !== null);
      const lost = rows.filter((d) => d.scheme === "observed");
      const said = lost.map((d) => `${d.rack}: ${d.newly_offline_partitions} partitions newly offline, ${d.under_min_isr_partitions} refuse acks=all`).join("; ");
      const bars = plot(where, "The worst survivor of each rack's death", {
        color: { ...colours, legend: true },
        fx: { label: "rack that dies" },
        x: { axis: null, domain: SCHEMES },
        y: { label: "worst survivor / mean", grid: true },
        marks: [
          Plot.barY(known, { fx: "rack", x: "scheme", y: "leaders_worst_over_mean", fill: "scheme", tip: true, title: (d) => `${d.scheme}: rack ${d.rack} (${d.brokers} brokers) dies, the worst survivor leads ${d.leaders_worst_over_mean.toFixed(2)} times the mean, ${d.newly_offline_partitions} partitions newly offline` }),
          Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "5,4" }),
        ],
      });
      return make("div", {}, known.length ? bars : nothing("No rack's death leaves a survivor."), make("p", { class: "muted" }, `As it is: ${said}.`));
    },
    copysets(cluster, where) {
      const rows = cluster.durability.filter((d) => d.loss_probability !== null);
      if (!rows.length) return nothing("No replica sets are known.");
      const counts = [...new Set(rows.map((d) => d.failures))].filter((k) => k >= 2);
      const chosen = rows.filter((d) => counts.includes(d.failures));
      if (!chosen.length) return nothing("Two brokers cannot die here.");
      return plot(where, "Replica sets against the chance of a loss", {
        color: { ...colours, legend: true },
        x: { label: "distinct replica sets (copysets)", grid: true, nice: true },
        y: { label: "P(some partition is lost)", grid: true, domain: [0, 1] },
        marks: [
          Plot.line(chosen, { x: "copysets", y: "loss_probability", z: "failures", sort: "copysets", stroke: "currentColor", strokeOpacity: 0.35 }),
          Plot.dot(chosen, { x: "copysets", y: "loss_probability", fill: "scheme", r: 5, tip: true, title: (d) => `${d.scheme}: ${d.copysets} replica sets; if ${d.failures} brokers die at once, some partition is lost with probability ${d.loss_probability.toPrecision(3)}` }),
          Plot.text(counts.map((k) => d3.greatest(chosen.filter((d) => d.failures === k), (d) => d.copysets)), { x: "copysets", y: "loss_probability", text: (d) => `${d.failures} die`, dx: 10, textAnchor: "start", fill: "currentColor" }),
        ],
        marginRight: 60,
      });
    },
    trend(cluster, where) {
      const names = { leaders_max_over_mean_ratio: "leaders now, max/mean", worst_survivor_max_over_mean_ratio: "worst survivor of a death, max/mean" };
      const rows = cluster.trend.filter((d) => names[d.metric] && d.value !== null).map((d) => ({ ...d, at: new Date(d.seen_at + "Z"), what: names[d.metric] }));
      const times = new Set(rows.map((d) => d.seen_at)).size;
      if (times < 2) return nothing(`The tables hold ${times === 1 ? "one snapshot" : "no snapshot"} of this cluster: run again with a later one, and it shows here how things went.`);
      return plot(where, "Over time", {
        color: { legend: true, domain: Object.values(names), range: [COLOURS.observed, COLOURS.naive] },
        x: { label: "snapshot first seen (UTC)", type: "utc" },
        y: { label: "ratio", grid: true, nice: true },
        marks: [
          Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "5,4" }),
          Plot.line(rows, { x: "at", y: "value", stroke: "what", marker: true }),
          Plot.tip(rows, Plot.pointer({ x: "at", y: "value", title: (d) => `${d.seen_at}: ${d.what} ${d.value.toFixed(3)}` })),
        ],
      });
    },
    plan(cluster, where) {
      const plan = cluster.plans[0];
      if (!plan) return nothing("No plan was made: name a goal, as in --set plans.goal=leaders.");
      if (!plan.feasible) return nothing(`Goal ${plan.goal}: no plan is possible. ${plan.reasons.join(" ")}`);
      const what = {
        replicas_max_over_mean: "replicas, max/mean", leaders_max_over_mean: "preferred leaders, max/mean", disk_max_over_mean: "disk, max/mean",
        bytes_in_max_over_mean: "bytes in, max/mean", bytes_out_max_over_mean: "bytes out, max/mean",
        worst_survivor_leaders_over_mean: "worst survivor, leaders", worst_survivor_bytes_out_over_mean: "worst survivor, bytes out",
        worst_survivor_of_pairs_over_mean: "worst survivor of pairs", worst_survivor_of_racks_over_mean: "worst survivor of racks",
      };
      const rows = Object.entries(what).map(([key, name]) => ({ name, before: plan[`${key}_before`], after: plan[`${key}_after`] })).filter((d) => d.before !== null && d.after !== null);
      const text = `Goal ${plan.goal}: ${plan.changed_partitions} partitions change, ${plan.leader_changes} of them their preferred leader; ${plan.moves} replicas are copied` +
        (plan.gap === 0 ? ", and no plan does with less." : ".");
      return make("div", {}, make("p", {}, text), plot(where, "Before and after the plan", {
        height: 60 + 28 * rows.length, marginLeft: 170,
        color: { legend: true, domain: ["before", "after"], range: [COLOURS.naive, COLOURS.observed] },
        x: { label: "over the mean (1 = even)", grid: true, nice: true },
        y: { label: null, domain: rows.map((d) => d.name) },
        marks: [
          Plot.ruleX([1], { stroke: "currentColor", strokeDasharray: "5,4" }),
          Plot.link(rows, { x1: "before", x2: "after", y1: "name", y2: "name", stroke: "currentColor", strokeOpacity: 0.5, markerEnd: "arrow" }),
          Plot.dot(rows, { x: "before", y: "name", fill: () => "before", r: 5, tip: true, title: (d) => `${d.name}: ${d.before.toFixed(3)} before, ${d.after.toFixed(3)} after` }),
          Plot.dot(rows, { x: "after", y: "name", fill: () => "after", r: 5 }),
        ],
      }));
    },
  };

  // A broker x broker picture; a pointer or the arrow keys read its cells.
  function heat(name, brokers, valueAt, colour, say, crossed = () => false) {
    const n = brokers.length, scale = Math.max(1, Math.floor(640 / n)), size = n * scale;
    const canvas = make("canvas", { width: size, height: size, tabindex: 0, role: "img", "aria-label": `${name}: ${n} by ${n} brokers; arrow keys read cells` });
    const told = make("output", {}, n > 1 ? `brokers ${brokers[0]} to ${brokers[n - 1]}` : `broker ${brokers[0]}`);
    const pen = canvas.getContext("2d");
    for (let x = 0; x < n; x++) {
      for (let y = 0; y < n; y++) {
        const value = valueAt(x, y);
        pen.fillStyle = value === null ? "#8884" : x === y ? "#8886" : colour(value);
        pen.fillRect(x * scale, y * scale, scale, scale);
        if (crossed(x, y)) {
          pen.strokeStyle = "#fff";
          pen.lineWidth = Math.max(1, scale / 24);
          pen.beginPath();
          pen.moveTo(x * scale, y * scale);
          pen.lineTo((x + 1) * scale, (y + 1) * scale);
          pen.moveTo((x + 1) * scale, y * scale);
          pen.lineTo(x * scale, (y + 1) * scale);
          pen.stroke();
        }
      }
    }
    let at = [0, Math.min(1, n - 1)];
    const tell = () => { told.textContent = at[0] === at[1] ? `broker ${brokers[at[0]]} itself` : say(at[0], at[1], valueAt(at[0], at[1]) ?? 0); };
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const cell = (value, length) => Math.max(0, Math.min(n - 1, Math.floor((value / length) * n)));
      at = [cell(event.clientX - box.left, box.width), cell(event.clientY - box.top, box.height)];
      tell();
    });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      at = at.map((value, i) => Math.max(0, Math.min(n - 1, value + step[i])));
      tell();
    });
    canvas.addEventListener("focus", tell);
    return make("div", { class: "heat" }, make("h4", {}, name), canvas, told);
  }

  function rampOf(colour, low, high) {
    const canvas = make("canvas", { width: 140, height: 1, "aria-hidden": "true" });
    const pen = canvas.getContext("2d"), [from, to] = colour.domain();
    for (let x = 0; x < 140; x++) {
      pen.fillStyle = colour(from + ((to - from) * x) / 139);
      pen.fillRect(x, 0, 1, 1);
    }
    return make("div", { class: "ramp" }, low, canvas, high);
  }

  function draw(where) {
    const cluster = clusters[Number(where.dataset.cluster)], name = where.dataset.chart;
    const details = make("details", { class: "sql" }, make("summary", {}, "SQL"), make("pre", { tabindex: 0 }, make("code", {}, cluster.sql[SQL_OF[name] ?? name])));
    where.replaceChildren(charts[name](cluster, where), details);
    where.dataset.drawn = String(where.clientWidth);
  }
  const SQL_OF = { leaders: "brokers", worst: "deaths", copysets: "durability" };

  function sortable(table) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    const value = (row, i) => {
      const cell = row.cells[i], text = cell.dataset.value ?? cell.textContent.trim(), number = Number(text);
      return text === "" || Number.isNaN(number) ? text : number;
    };
    const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
    heads.forEach((head, i) => {
      const button = make("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...[...body.rows].sort((a, b) => compare(value(a, i), value(b, i)) * (down ? -1 : 1)));
      });
    });
  }

  document.querySelectorAll("table.sortable").forEach(sortable);
  const every = [...document.querySelectorAll("[data-chart]")];
  every.forEach(draw);
  let waits = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waits);
    waits = setTimeout(() => every.filter((one) => one.dataset.drawn !== String(one.clientWidth)).forEach(draw), 150);
  });
})();
