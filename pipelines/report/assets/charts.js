"use strict";
// Draws the charts. Names of topics and clusters are inserted as text only, as they may hold anything.
const charts = (() => {
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
  const NO_LIVE_BROKER = "No live broker is known.", OF_LIVE_BROKERS = ["leaders", "disk", "bytes_in", "bytes_out", "worst", "takeovers", "pairs", "racks", "copysets", "plan"];

  // Values of brokers around their mean. rows: {id, value, title}. Many brokers are shown as dots, group by group;
  // the bars of one group on demand.
  function brokerBars(cluster, where, { rows, label, unit, format = String }) {
    const mean = d3.mean(rows, (d) => d.value);
    const y = { label: unit, grid: true, tickFormat: format }, marginLeft = format === String ? 48 : 70;
    const meanLine = [
      Plot.ruleY([mean], { stroke: "currentColor", strokeDasharray: "5,4" }),
      Plot.text([mean], { text: (d) => `- - mean ${format === String ? d.toFixed(1) : format(d)}`, frameAnchor: "top-right", dy: -20, fill: "currentColor" }),
    ];
    const bars = (some) => plot(where, label, {
      marginLeft, x: brokerScale(some.map((d) => d.id), "broker"), y,
      marks: [Plot.barY(some, { x: "id", y: "value", fill: COLOURS.observed, inset: some.length > FEW ? 0 : 1, tip: true, title: "title" }), ...meanLine],
    });
    if (!cluster.groups.length) return bars(rows);
    const byId = new Map(rows.map((d) => [d.id, d]));
    const members = cluster.groups.map((group) => ({ name: group.name, rows: group.broker_ids.map((id) => byId.get(id)) }));
    return drillDown(members.map((group) => group.name), "All, group by group", (chosen) =>
      chosen === null ? scatter(where, label, members.map((group) => group.rows), cluster.groups, y, COLOURS.observed, meanLine, marginLeft) : bars(members[chosen].rows));
  }

  // Dots of brokers, in a column per group. rows: per group, {value, title}.
  function scatter(where, label, rows, groups, y, fill, marks = [], marginLeft = 48) {
    const dots = rows.flatMap((some, g) => some.map((d, i) => ({ ...d, x: g + 0.1 + (0.8 * (i + 0.5)) / some.length })));
    const tilted = groups.length > where.clientWidth / 110;
    return plot(where, label, {
      marginLeft, height: tilted ? 330 : 260, marginBottom: tilted ? 110 : 44,
      x: { domain: [0, groups.length], ticks: groups.map((_, g) => g + 0.5), tickFormat: (at) => groups[Math.floor(at)]?.name ?? "", tickRotate: tilted ? -60 : 0, label: null }, y,
      marks: [
        Plot.ruleX(d3.range(1, groups.length), { stroke: "currentColor", strokeOpacity: 0.15 }),
        Plot.dot(dots, { x: "x", y: "value", fill, r: 2, tip: true, title: "title" }), ...marks,
      ],
    });
  }

  // A choice above a chart. draw: returns the chart for the index of the choice, or for null.
  function drillDown(names, all, draw) {
    const select = make("select", { "aria-label": "Show" }, make("option", { value: "" }, all), ...names.map((name, i) => make("option", { value: i }, name)));
    const place = make("div", {}, draw(null));
    select.addEventListener("change", () => place.replaceChildren(draw(select.value === "" ? null : Number(select.value))));
    return make("div", {}, make("label", { class: "choice" }, "Show ", select), place);
  }

  const bytes = (n) => (n >= 1e12 ? `${(n / 1e12).toFixed(2)} TB` : n >= 1e9 ? `${(n / 1e9).toFixed(1)} GB` : `${(n / 1e6).toFixed(1)} MB`);
  const ofRack = (d) => (d.rack === null ? "" : `, rack ${d.rack}`);

  const rate = (n) => (n >= 1e6 ? `${bytes(n)}/s` : `${(n / 1e3).toFixed(1)} kB/s`);

  // Bars of the brokers whose value is known, and how many are not. what: the noun of the values.
  function knownBars(cluster, where, options, what) {
    const rows = options.rows.filter((d) => d.value !== null), known = new Set(rows.map((d) => d.id));
    const groups = cluster.groups.map((group) => ({ ...group, broker_ids: group.broker_ids.filter((id) => known.has(id)) }));
    const chart = brokerBars({ groups }, where, { ...options, rows }), unknown = options.rows.length - rows.length;
    return unknown ? make("div", {}, chart, make("p", { class: "muted" }, `The ${what} of ${count(unknown, "broker")} are unknown.`)) : chart;
  }

  // Bytes per second of brokers. way: in or out; parts: columns by the kind of traffic.
  function rateBars(cluster, where, way, parts) {
    const byId = new Map(cluster.network.map((d) => [d.broker_id, d]));
    const rows = cluster.brokers.map(({ broker_id: id }) => {
      const d = byId.get(id) ?? {}, value = d[`network_bytes_${way}_per_s`] ?? null;
      const kinds = Object.entries(parts).map(([kind, column]) => `${kind} ${rate(d[column] ?? 0)}`).join(", ");
      return { id, value, title: value === null ? "" : `broker ${id}: ${rate(value)} ${way}: ${kinds}` };
    });
    return knownBars(cluster, where, { rows, label: `Bytes ${way} per broker`, unit: `bytes ${way} per second`, format: rate }, "rates");
  }

  const drawings = {
    leaders(cluster, where) {
      const rows = cluster.brokers.map((d) => ({ id: d.broker_id, value: d.leaders, title: `broker ${d.broker_id}: ${count(d.leaders, "leader")}, ${count(d.replicas, "replica")}${ofRack(d)}` }));
      return brokerBars(cluster, where, { rows, label: "Leaders per broker", unit: "leaders" });
    },
    disk(cluster, where) {
      const rows = cluster.brokers.map((d) => ({ id: d.broker_id, value: d.size_bytes, title: `broker ${d.broker_id}: ${bytes(d.size_bytes ?? 0)}${ofRack(d)}` }));
      return knownBars(cluster, where, { rows, label: "Disk per broker", unit: "bytes of replicas", format: bytes }, "sizes");
    },
    bytes_in(cluster, where) {
      return rateBars(cluster, where, "in", { producers: "producer_bytes_in_per_s", replication: "replication_bytes_in_per_s" });
    },
    bytes_out(cluster, where) {
      return rateBars(cluster, where, "out", { consumers: "consumer_bytes_out_per_s", replication: "replication_bytes_out_per_s" });
    },
    worst(cluster, where) {
      const rows = Object.entries(cluster.worst).flatMap(([scheme, pairs]) => pairs.map(([failed, ratio]) => ({ scheme, failed, ratio })));
      if (!rows.length) return nothing("No failure leaves a survivor with leaders.");
      const failed = [...new Set(rows.map((d) => d.failed))].sort(d3.ascending);
      // A naive placement far above the others would flatten them: it is then left off the chart and described below.
      const naive = rows.filter((d) => d.scheme === "naive"), others = rows.filter((d) => d.scheme !== "naive");
      const most = d3.max(others, (d) => d.ratio), beyond = naive.length && others.length && d3.max(naive, (d) => d.ratio) > 3 * most;
      const visible = (beyond ? others : rows).sort((a, b) => SCHEMES.indexOf(b.scheme) - SCHEMES.indexOf(a.scheme));
      if (cluster.groups.length) return worstOfMany(cluster, where, visible);
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
    takeovers(cluster, where) {
      const { names, schemes, survivors } = cluster.takeovers, n = names.length;
      const present = SCHEMES.filter((one) => schemes[one]);
      if (!present.length) return nothing("No takeovers: each partition has one replica, or there is one broker.");
      // The colour scale ends at the maximum of the other schemes: under naive, one neighbour takes everything.
      const rest = present.filter((one) => one !== "naive"), most = d3.max(present, (one) => d3.max(schemes[one]));
      const top = Math.max(1, d3.max(rest.length ? rest : present, (one) => d3.max(schemes[one])));
      const colour = d3.scaleSequentialSqrt([0, top], ramp).clamp(true);
      const say = (scheme) => (x, y, value) => survivors
        ? `${scheme}: if each broker of ${names[x]} fails alone, ${names[y]} takes over ${count(value, "partition")} in all`
        : `${scheme}: if broker ${names[x]} fails, broker ${names[y]} takes over ${count(value, "partition")}`;
      const own = survivors ? null : n > FEW ? ramp(0) : undefined;
      const heats = present.map((scheme) => heat({ name: scheme, names, valueAt: (x, y) => schemes[scheme][x * n + y], colour, say: say(scheme), own, text: (value) => (value < 10000 ? String(value) : d3.format(".3~s")(value)) }));
      const key = rampOf(colour, "0", most > top ? `${count(top, "partition")} or more` : count(top, "partition"));
      return make("div", {}, make("div", { class: n > FEW || survivors ? "heats many" : "heats" }, ...heats), key, ...(survivors ? [survivorBars(cluster, where)] : []));
    },
    pairs(cluster) {
      const rows = cluster.pairs;
      if (!rows.length) return nothing("There are fewer than three brokers, or more pairs than failures.max_pairs.");
      const summed = cluster.takeovers.survivors !== null;
      const ids = summed ? cluster.groups.map((_, i) => i) : [...new Set(rows.flatMap((d) => [d[0], d[1]]))].sort(d3.ascending);
      const names = summed ? cluster.takeovers.names : ids;
      const place = new Map(ids.map((id, i) => [id, i]));
      const n = ids.length, grid = new Array(n * n).fill(null);
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
        if (summed) return `if a broker of ${names[x]} and one of ${names[y]} fail: ${ratio} at worst; ${row[3]} of ${count(row[4], "pair")} ${row[3] === 1 ? "takes" : "take"} partitions offline`;
        return `if brokers ${names[x]} and ${names[y]} fail: ${ratio}, ${count(row[3], "partition")} newly offline, ${row[4]} newly below min.insync.replicas`;
      };
      const one = heat({
        name: "observed", names, valueAt: (x, y) => grid[x * n + y]?.[2] ?? null, colour, say, own: summed ? null : "#777",
        crossed: (x, y) => (grid[x * n + y]?.[3] ?? 0) > 0, text: (ratio) => ratio.toFixed(2),
      });
      const offline = summed ? d3.sum(rows, (d) => d[3]) : rows.filter((d) => d[3] > 0).length, pairs = summed ? d3.sum(rows, (d) => d[4]) : rows.length;
      const key = `${offline} of ${count(pairs, "pair")} of brokers ${offline === 1 ? "takes" : "take"} partitions offline${offline ? ` (${n > FEW ? "white" : "crossed"} cells)` : ""}.`;
      return make("div", {}, one, rampOf(colour, "1.00", `${colour.domain()[1].toFixed(2)} times the mean`), make("p", { class: "muted" }, key));
    },
    racks(cluster, where) {
      const rows = cluster.racks.map((d) => ({ ...d, rack: d.scenario.replace(/^rack:/, "") })).sort((a, b) => SCHEMES.indexOf(a.scheme) - SCHEMES.indexOf(b.scheme));
      if (!rows.length) return nothing("Racks are unknown.");
      const known = rows.filter((d) => d.worst_survivor_ratio !== null);
      const lost = rows.filter((d) => d.scheme === "observed");
      const summary = lost.map((d) => `${d.rack}: ${count(d.newly_offline_partitions, "partition")} newly offline, ${d.newly_under_min_isr_partitions} newly below min.insync.replicas`).join("; ");
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
      const { plan } = cluster;
      if (!plan.feasible) return nothing(`Infeasible. ${plan.reasons.join(" ")}`);
      const what = {
        replicas_max_over_mean: "replicas", leaders_max_over_mean: "preferred leaders", disk_max_over_mean: "disk",
        bytes_in_max_over_mean: "bytes in", bytes_out_max_over_mean: "bytes out",
        worst_survivor_ratio: "worst survivor, leaders", worst_survivor_bytes_out_ratio: "worst survivor, bytes out",
        worst_survivor_ratio_of_pairs: "worst survivor of pairs", worst_survivor_ratio_of_racks: "worst survivor of racks",
      };
      const rows = Object.entries(what).map(([key, name]) => ({ name, before: plan.metrics[key][0], after: plan.metrics[key][1] })).filter((d) => d.before !== null && d.after !== null);
      const text = `${count(plan.changed_partitions, "partition")} ${plan.changed_partitions === 1 ? "changes" : "change"}, ${plan.leader_changes} ${plan.leader_changes === 1 ? "gets" : "get"} another preferred leader, ${count(plan.moves, "replica")} ${plan.moves === 1 ? "is" : "are"} copied` +
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

  // For many brokers: the survivors' ratios as dots, a column per group and a choice of schemes.
  function worstOfMany(cluster, where, rows) {
    const schemes = schemesOf(rows), values = new Map(rows.map((d) => [`${d.scheme} ${d.failed}`, d]));
    const dots = (scheme) => cluster.groups.map((group) => group.broker_ids.flatMap((id) => {
      const d = values.get(`${scheme} ${id}`);
      return d ? [{ value: d.ratio, title: `${scheme}: if broker ${id} fails, the worst survivor leads ${d.ratio.toFixed(2)} times the mean` }] : [];
    }));
    const domain = [1, d3.max(rows, (d) => d.ratio)];
    return drillDown(schemes.slice(1), schemes[0], (chosen) => {
      const scheme = schemes[chosen === null ? 0 : chosen + 1];
      return scatter(where, "Worst survivor after the failure of each broker", dots(scheme), cluster.groups, { label: "worst survivor / mean", grid: true, nice: true, domain }, COLOURS[scheme]);
    });
  }

  // For many brokers: who takes over from one of them.
  function survivorBars(cluster, where) {
    const { survivors } = cluster.takeovers, failed = Object.keys(survivors).map(Number).sort(d3.ascending);
    return drillDown(failed.map(String), "survivors of a failed broker", (chosen) => {
      if (chosen === null) return make("p", { class: "muted" }, "Choose a broker: the chart shows who would take over from it.");
      const rows = survivors[failed[chosen]].slice(0, FEW).map(([id, value]) => ({ id, value, title: `broker ${id} takes over ${count(value, "partition")} from broker ${failed[chosen]}` }));
      return plot(where, `Survivors of broker ${failed[chosen]}`, {
        x: brokerScale(rows.map((d) => d.id), "survivor"), y: { label: "takeovers", grid: true },
        marks: [Plot.barY(rows, { x: "id", y: "value", fill: COLOURS.observed, inset: 1, tip: true, title: "title" })],
      });
    });
  }

  function draw(where) {
    const cluster = clusters[Number(where.dataset.cluster)], name = where.dataset.chart;
    const details = make("details", { class: "sql" }, make("summary", {}, "SQL"), make("pre", { tabindex: 0 }, make("code", {}, cluster.sql[SQL_OF[name] ?? name])));
    const content = cluster.brokers.length || !OF_LIVE_BROKERS.includes(name) ? drawings[name](cluster, where) : nothing(NO_LIVE_BROKER);
    where.replaceChildren(content, details);
    where.dataset.drawn = String(where.clientWidth);
  }
  const SQL_OF = { leaders: "brokers", disk: "brokers", bytes_in: "network", bytes_out: "network", worst: "failures", copysets: "durability", plan: "plan_metrics" };

  return { clusters, draw, plot, brokerScale, count, COLOURS };
})();
