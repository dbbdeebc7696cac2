"use strict";
// Draws the charts. Names of topics and clusters are inserted as text only, as they may hold anything.
(() => {
  const clusters = JSON.parse(document.getElementById("data").textContent);
  const { heat, rampOf, make, FEW } = heatMaps;
  // Okabe and Ito's colours, which colour-blind people can distinguish; schemes added by the user get the last ones.
  const COLOURS = { observed: "#0072b2", kafka: "#e69f00", kraft: "#cc79a7", naive: "#d55e00" }, OTHERS = ["#009e73", "#56b4e9", "#b8a900"];
  const schemesInUse = clusters.flatMap((one) => [...Object.keys(one.worst), ...Object.keys(one.takeovers.schemes)]);
  [...new Set(schemesInUse)].filter((one) => !(one in COLOURS)).forEach((one, i) => { COLOURS[one] = OTHERS[i % OTHERS.length]; });
  const SCHEMES = Object.keys(COLOURS);
  const ramp = d3.interpolateViridis;

  const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const nothing = (why) => make("p", { class: "nothing" }, why);
  const width = (where) => Math.max(260, Math.min(1160, where.clientWidth));
  const schemesOf = (rows) => SCHEMES.filter((one) => rows.some((d) => d.scheme === one));
  const coloursOf = (rows) => ({ domain: schemesOf(rows), range: schemesOf(rows).map((one) => COLOURS[one]), legend: true });
  const plot = (where, label, options) =>
    Plot.plot({ width: width(where), height: 260, marginLeft: 48, marginTop: 30, marginBottom: 44, ariaLabel: label, style: { background: "none", fontSize: "12px" }, ...options });
  // Integer ticks.
  const whole = (values, where) => [...new Set(d3.ticks(d3.min(values), d3.max(values), where.clientWidth < 420 ? 4 : 8).map(Math.round))];
  const ids = (values) => (values.length > 30 ? values.filter((_, i) => i % Math.ceil(values.length / 20) === 0) : values);
  const brokerScale = (values, label) => ({ label, domain: values, type: "band", ticks: ids(values), tickFormat: String, tickRotate: values.length > 12 ? -60 : 0 });

  // Charts that need a live broker.
  const NO_LIVE_BROKER = "No live broker is known.", OF_LIVE_BROKERS = ["leaders", "worst", "takeovers", "pairs", "racks", "copysets", "plan"];

  const charts = {
    leaders(cluster, where) {
      const rows = cluster.brokers;
      const mean = d3.mean(rows, (d) => d.leaders);
      return plot(where, "Leaders per broker", {
        x: brokerScale(rows.map((d) => d.broker_id), "broker"),
        y: { label: "leaders", grid: true },
        marks: [
          Plot.barY(rows, { x: "broker_id", y: "leaders", fill: COLOURS.observed, inset: rows.length > FEW ? 0 : 1, tip: true, title: (d) => `broker ${d.broker_id}: ${count(d.leaders, "leader")}, ${count(d.replicas, "replica")}${d.rack === null ? "" : `, rack ${d.rack}`}` }),
          Plot.ruleY([mean], { stroke: "currentColor", strokeDasharray: "5,4" }),
          Plot.text([mean], { text: (d) => `- - mean ${d.toFixed(1)}`, frameAnchor: "top-right", dy: -20, fill: "currentColor" }),
        ],
      });
    },
    worst(cluster, where) {
      const rows = Object.entries(cluster.worst).flatMap(([scheme, pairs]) => pairs.map(([failed, ratio]) => ({ scheme, failed, ratio })));
      if (!rows.length) return nothing("No failure leaves a survivor with leaders.");
      const failed = [...new Set(rows.map((d) => d.failed))].sort(d3.ascending);
      // A naive placement far above the others would flatten them: it is then left off the chart and described below.
      const naive = rows.filter((d) => d.scheme === "naive"), others = rows.filter((d) => d.scheme !== "naive");
      const most = d3.max(others, (d) => d.ratio), beyond = naive.length && others.length && d3.max(naive, (d) => d.ratio) > 3 * most;
      const visible = (beyond ? others : rows).sort((a, b) => SCHEMES.indexOf(b.scheme) - SCHEMES.indexOf(a.scheme));
      const chart = plot(where, "Worst survivor after the failure of each broker", {
        color: { ...coloursOf(visible), legend: false },
        symbol: { domain: schemesOf(visible), legend: true },
        x: brokerScale(failed, "failed broker"),
        y: { label: "worst survivor / mean", grid: true, nice: true },
        marks: [
          Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "5,4" }),
          Plot.dot(visible, { x: "failed", y: "ratio", stroke: "scheme", symbol: "scheme", r: failed.length > FEW ? 2 : 4, tip: true, title: (d) => `${d.scheme}: if broker ${d.failed} fails, the worst survivor leads ${d.ratio.toFixed(2)} times the mean` }),
        ],
      });
      if (!beyond) return chart;
      const [low, high] = d3.extent(naive, (d) => d.ratio);
      return make("div", {}, chart, make("p", { class: "muted" }, `naive is off the scale: ${low.toFixed(2)} to ${high.toFixed(2)} times the mean.`));
    },
    takeovers(cluster) {
      const { ids: brokers, schemes } = cluster.takeovers, n = brokers.length;
      const present = SCHEMES.filter((one) => schemes[one]);
      if (!present.length) return nothing("No takeovers: each partition has one replica, or there is one broker.");
      // The colour scale ends at the maximum of the other schemes: under naive, one neighbour takes everything.
      const rest = present.filter((one) => one !== "naive"), most = d3.max(present, (one) => d3.max(schemes[one]));
      const top = Math.max(1, d3.max(rest.length ? rest : present, (one) => d3.max(schemes[one])));
      const colour = d3.scaleSequentialSqrt([0, top], ramp).clamp(true);
      const say = (scheme) => (x, y, value) => `${scheme}: if broker ${brokers[x]} fails, broker ${brokers[y]} takes over ${count(value, "partition")}`;
      const own = n > FEW ? ramp(0) : undefined;
      const heats = present.map((scheme) => heat({ name: scheme, brokers, valueAt: (x, y) => schemes[scheme][x * n + y], colour, say: say(scheme), own }));
      const key = rampOf(colour, "0", most > top ? `${count(top, "partition")} or more` : count(top, "partition"));
      return make("div", {}, make("div", { class: n > FEW ? "heats many" : "heats" }, ...heats), key);
    },
    pairs(cluster) {
      const rows = cluster.pairs;
      if (!rows.length) return nothing("There are fewer than three brokers, or more pairs than failures.max_pairs.");
      const brokers = [...new Set(rows.flatMap((d) => [d[0], d[1]]))].sort(d3.ascending);
      const place = new Map(brokers.map((id, i) => [id, i]));
      const n = brokers.length, grid = new Array(n * n).fill(null);
      for (const row of rows) {
        grid[place.get(row[0]) * n + place.get(row[1])] = row;
        grid[place.get(row[1]) * n + place.get(row[0])] = row;
      }
      const ratios = rows.map((d) => d[2]).filter((d) => d !== null);
      const colour = d3.scaleSequential([1, Math.max(1.001, d3.max(ratios) ?? 1)], ramp);
      const say = (x, y) => {
        const row = grid[x * n + y];
        if (!row) return "";
        const ratio = row[2] === null ? "no survivor has leaders" : `the worst survivor leads ${row[2].toFixed(2)} times the mean`;
        return `if brokers ${brokers[x]} and ${brokers[y]} fail: ${ratio}, ${count(row[3], "partition")} newly offline, ${row[4]} below min.insync.replicas`;
      };
      const one = heat({
        name: "observed", brokers, valueAt: (x, y) => grid[x * n + y]?.[2] ?? null, colour, say, own: "#777",
        crossed: (x, y) => (grid[x * n + y]?.[3] ?? 0) > 0, text: (ratio) => ratio.toFixed(2),
      });
      const offline = rows.filter((d) => d[3] > 0).length;
      const key = `${offline} of ${count(rows.length, "pair")} ${offline === 1 ? "takes" : "take"} partitions offline${offline ? ` (${n > FEW ? "white" : "crossed"} cells)` : ""}.`;
      return make("div", {}, one, rampOf(colour, "1.00", `${colour.domain()[1].toFixed(2)} times the mean`), make("p", { class: "muted" }, key));
    },
    racks(cluster, where) {
      const rows = cluster.racks.map((d) => ({ ...d, rack: d.scenario.replace(/^rack:/, "") })).sort((a, b) => SCHEMES.indexOf(a.scheme) - SCHEMES.indexOf(b.scheme));
      if (!rows.length) return nothing("Racks are unknown.");
      const known = rows.filter((d) => d.worst_survivor_ratio !== null);
      const lost = rows.filter((d) => d.scheme === "observed");
      const summary = lost.map((d) => `${d.rack}: ${count(d.newly_offline_partitions, "partition")} newly offline, ${d.under_min_isr_partitions} below min.insync.replicas`).join("; ");
      const bars = plot(where, "Worst survivor after the failure of each rack", {
        color: coloursOf(known),
        fx: { label: "failed rack", labelOffset: 38 },
        x: { axis: null, domain: schemesOf(known) },
        y: { label: "worst survivor / mean", grid: true },
        marks: [
          Plot.barY(known, { fx: "rack", x: "scheme", y: "worst_survivor_ratio", fill: "scheme", tip: true, title: (d) => `${d.scheme}: if rack ${d.rack} (${count(d.brokers, "broker")}) fails, the worst survivor leads ${d.worst_survivor_ratio.toFixed(2)} times the mean; ${count(d.newly_offline_partitions, "partition")} newly offline` }),
          Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "5,4" }),
        ],
      });
      return make("div", {}, known.length ? bars : nothing("No rack failure leaves a survivor."), make("p", { class: "muted" }, `Observed: ${summary}.`));
    },
    copysets(cluster, where) {
      const rows = cluster.durability.filter((d) => d.loss_probability !== null);
      if (!rows.length) return nothing("Replicas are unknown.");
      // A single failure loses only partitions with one replica; without such partitions its line is left out.
      const counts = [...new Set(rows.map((d) => d.failures))].filter((k) => k >= 2 || rows.some((d) => d.failures === k && d.loss_probability > 0));
      const chosen = rows.filter((d) => counts.includes(d.failures));
      if (!chosen.length) return nothing("There are fewer than two brokers, and losing one loses no data.");
      // One label for lines that end close together.
      const most = d3.max(chosen, (d) => d.loss_probability) || 1, ends = [];
      for (const end of d3.sort(counts.map((k) => d3.greatest(chosen.filter((d) => d.failures === k), (d) => d.copysets)), (d) => d.loss_probability)) {
        const last = ends.at(-1);
        if (last && end.loss_probability - last.at(-1).loss_probability < 0.08 * most && end.copysets === last[0].copysets) last.push(end);
        else ends.push([end]);
      }
      const who = (some) => (some.length > 1 ? `${d3.min(some, (d) => d.failures)} to ${d3.max(some, (d) => d.failures)} fail` : some[0].failures === 1 ? "1 fails" : `${some[0].failures} fail`);
      return plot(where, "Copysets and the probability of data loss", {
        color: coloursOf(chosen),
        x: { label: "copysets (distinct replica sets)", grid: true, nice: true, ticks: whole(chosen.map((d) => d.copysets), where), tickFormat: "d" },
        y: { label: "P(some partition is lost)", grid: true, domain: [0, most], nice: true },
        marks: [
          Plot.line(chosen, { x: "copysets", y: "loss_probability", z: "failures", sort: "copysets", stroke: "currentColor", strokeOpacity: 0.35 }),
          Plot.dot(chosen, { x: "copysets", y: "loss_probability", fill: "scheme", r: 5, tip: true, title: (d) => `${d.scheme}: ${count(d.copysets, "copyset")}; if ${count(d.failures, "broker")} ${d.failures === 1 ? "fails" : "fail"} for good, some partition is lost with probability ${d.loss_probability.toPrecision(3)}` }),
          Plot.text(ends, { x: (some) => some[0].copysets, y: (some) => d3.mean(some, (d) => d.loss_probability), text: who, dx: 10, textAnchor: "start", fill: "currentColor" }),
        ],
        marginRight: 75,
      });
    },
    trend(cluster, where) {
      const names = { leaders_max_over_mean_ratio: "leaders now, max/mean", worst_survivor_ratio: "worst survivor of any single failure, max/mean" };
      const rows = cluster.trend.filter((d) => names[d.metric] && d.value !== null).map((d) => ({ ...d, at: new Date(d.as_of), what: names[d.metric] }));
      if (new Set(cluster.trend.map((d) => d.as_of)).size < 2) return nothing("There is one run for this cluster. Later runs appear here.");
      if (!rows.length) return nothing("No run had a live broker with leaders.");
      return plot(where, "History", {
        color: { legend: true, domain: Object.values(names), range: [COLOURS.observed, COLOURS.naive] },
        x: { label: "run (UTC)", type: "utc", inset: 24, ticks: where.clientWidth < 420 ? 3 : 5 },
        y: { label: "ratio", grid: true, nice: true },
        marks: [
          Plot.ruleY([1], { stroke: "currentColor", strokeDasharray: "5,4" }),
          Plot.line(rows, { x: "at", y: "value", stroke: "what", marker: true }),
          Plot.tip(rows, Plot.pointer({ x: "at", y: "value", title: (d) => `${d.as_of}: ${d.what} ${d.value.toFixed(3)}` })),
        ],
      });
    },
    plan(cluster, where) {
      const plan = cluster.plans[0];
      if (!plan) return nothing("There is no plan. Set a goal, as in --set plans.goal=leaders.");
      if (!plan.feasible) return nothing(`Goal ${plan.goal}: infeasible. ${plan.reasons.join(" ")}`);
      const what = {
        replicas_max_over_mean: "replicas", leaders_max_over_mean: "preferred leaders", disk_max_over_mean: "disk",
        bytes_in_max_over_mean: "bytes in", bytes_out_max_over_mean: "bytes out",
        worst_survivor_ratio: "worst survivor, leaders", worst_survivor_bytes_out_ratio: "worst survivor, bytes out",
        worst_survivor_ratio_of_pairs: "worst survivor of pairs", worst_survivor_ratio_of_racks: "worst survivor of racks",
      };
      const rows = Object.entries(what).map(([key, name]) => ({ name, before: plan[`${key}_before`], after: plan[`${key}_after`] })).filter((d) => d.before !== null && d.after !== null);
      const text = `Goal ${plan.goal}: ${count(plan.changed_partitions, "partition")} ${plan.changed_partitions === 1 ? "changes" : "change"}, ${plan.leader_changes} ${plan.leader_changes === 1 ? "gets" : "get"} another preferred leader, ${count(plan.moves, "replica")} ${plan.moves === 1 ? "is" : "are"} copied` +
        (plan.gap === 0 ? "; no plan needs less." : ".");
      return make("div", {}, make("p", {}, text), plot(where, "Before and after the plan", {
        height: 80 + 28 * rows.length, marginLeft: 165,
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

  function draw(where) {
    const cluster = clusters[Number(where.dataset.cluster)], name = where.dataset.chart;
    const details = make("details", { class: "sql" }, make("summary", {}, "SQL"), make("pre", { tabindex: 0 }, make("code", {}, cluster.sql[SQL_OF[name] ?? name])));
    const content = cluster.brokers.length || !OF_LIVE_BROKERS.includes(name) ? charts[name](cluster, where) : nothing(NO_LIVE_BROKER);
    where.replaceChildren(content, details);
    where.dataset.drawn = String(where.clientWidth);
  }
  const SQL_OF = { leaders: "brokers", worst: "failures", copysets: "durability" };

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
