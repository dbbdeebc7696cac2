"use strict";
// Topics: a search, and the brokers of one topic on demand.
const topics = (() => {
  const { make } = heatMaps, { clusters, count, plot, brokerScale, COLOURS } = charts;
  const MOST = 20; // topics in the table

  function searchable(section) {
    const cluster = clusters[Number(section.dataset.topics)], rows = cluster.topics;
    const table = section.querySelector("table"), caption = table.caption, all = caption.textContent;
    const search = make("input", { type: "search", placeholder: "Find a topic", "aria-label": "Find a topic", autocomplete: "off" });
    const details = make("div", { class: "topic", "aria-live": "polite" });
    const show = (some) => {
      table.tBodies[0].replaceChildren(...some.slice(0, MOST).map((one) => row(one, () => details.replaceChildren(describe(one, section)))));
    };
    search.addEventListener("input", () => {
      const text = search.value.trim().toLowerCase();
      const some = rows.filter((one) => one.topic.toLowerCase().includes(text));
      show(some);
      const unlisted = rows.length < rows[0].topics ? ` The page lists ${rows.length} of ${count(rows[0].topics, "topic")}; the SQL below finds the others.` : "";
      caption.textContent = text === "" ? all : `${count(some.length, "topic")}${some.length > MOST ? `, the first ${MOST}` : ""}.${unlisted}`;
    });
    table.parentElement.before(make("div", { class: "filters" }, search));
    table.parentElement.after(details);
    show(rows);
  }

  function row(one, open) {
    const button = make("button", { type: "button", class: "link" }, one.topic);
    button.addEventListener("click", open);
    const cells = [one.partitions, one.leaders_max, one.hottest_broker ?? "-", one.max_over_mean_ratio?.toFixed(2) ?? "-", one.brokers_spread_percent?.toFixed(0) ?? "-"];
    return make("tr", {}, make("th", { scope: "row" }, button), ...cells.map((text) => make("td", { class: "n" }, String(text))));
  }

  function describe(one, section) {
    const issues = [[one.offline_partitions, "offline"], [one.under_min_isr_partitions, "below min.insync.replicas"], [one.under_replicated_partitions, "under-replicated"]]
      .filter(([n]) => n > 0).map(([n, what]) => `${count(n, "partition")} ${what}`);
    const percent = (value) => `${(value ?? 0).toFixed(0)} %`;
    const text = `${count(one.partitions, "partition")}, replication factor ${one.replication_factor}, replicas on ${count(one.replica_brokers, "broker")}. ` +
      `${issues.length ? `${issues.join(", ")}. ` : ""}Spread: ${percent(one.brokers_spread_percent)} of the brokers have a replica. ` +
      `Skew: ${percent(one.brokers_skew_percent)} of these have more replicas, and ${percent(one.brokers_leader_skew_percent)} more leaders, than an even share.`;
    const rows = one.broker_list.flatMap(([id, leaders, replicas]) => [{ id, n: leaders, what: "leaders" }, { id, n: replicas - leaders, what: "followers" }]);
    const chart = plot(section, `Brokers of ${one.topic}`, {
      color: { legend: true, domain: ["leaders", "followers"], range: [COLOURS.observed, "#8a929a"] },
      x: brokerScale(one.broker_list.map(([id]) => id), "broker"), y: { label: "replicas", grid: true },
      marks: [Plot.barY(rows, { x: "id", y: "n", fill: "what", tip: true, title: (d) => `broker ${d.id}: ${d.n} ${d.what}` })],
    });
    const more = one.replica_brokers > one.broker_list.length ? [make("p", { class: "muted" }, `The ${one.broker_list.length} brokers with most leaders of ${one.replica_brokers}.`)] : [];
    return make("div", {}, make("h4", {}, one.topic), make("p", {}, text), chart, ...more);
  }

  return { searchable };
})();
