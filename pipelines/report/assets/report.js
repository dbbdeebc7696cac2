"use strict";
// What the page does: sorts tables, searches clusters, and draws a chart when it is scrolled to or printed.
(() => {
  const { make } = heatMaps;

  function sortable(table) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    const value = (row, i) => {
      let columns = 0;
      const cell = [...row.cells].find((one) => (columns += one.colSpan) > i), text = cell.dataset.value ?? cell.textContent.trim(), number = Number(text);
      return text === "" || Number.isNaN(number) ? text : number;
    };
    const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
    heads.forEach((head, i) => {
      const button = make("button", { type: "button" });
      button.append(...head.childNodes); // with the places where it may break
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...[...body.rows].sort((a, b) => compare(value(a, i), value(b, i)) * (down ? -1 : 1)));
      });
    });
  }

  // Charts are drawn when they come near the window: a page of a hundred clusters has a thousand.
  const every = [...document.querySelectorAll("[data-chart]")];
  const isShown = (one) => one.clientWidth > 0 && !one.closest("details:not([open])");
  const drawNew = (some) => some.filter((one) => isShown(one) && !one.dataset.drawn).forEach(charts.draw);
  const watch = new IntersectionObserver((entries) => drawNew(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target)), { rootMargin: "600px" });
  every.forEach((one) => watch.observe(one));
  // What was seen while it was folded is looked at again, as its place may be the same.
  document.querySelectorAll("details").forEach((one) => one.addEventListener("toggle", () => {
    if (one.open) one.querySelectorAll("[data-chart]").forEach((chart) => { watch.unobserve(chart); watch.observe(chart); });
  }));
  window.addEventListener("beforeprint", () => {
    const work = document.querySelector(".work");
    if (work) work.open = true;
    drawNew(every);
  });
  let waits = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waits);
    waits = setTimeout(() => every.filter((one) => isShown(one) && one.dataset.drawn && one.dataset.drawn !== String(one.clientWidth)).forEach(charts.draw), 150);
  });

  // Clusters by level and name.
  const clusters = [...document.querySelectorAll("details.cluster, #clusters tbody tr")];
  const buttons = [...document.querySelectorAll("[data-filter]")], search = document.getElementById("find-cluster");
  function choose(level, text) {
    let matches = 0;
    for (const one of clusters) {
      one.hidden = (level !== "" && one.dataset.level !== level) || !one.dataset.name.toLowerCase().includes(text.trim().toLowerCase());
      if (!one.hidden && one.tagName === "TR") matches += 1;
    }
    document.getElementById("matches").textContent = level === "" && text.trim() === "" ? "" : charts.count(matches, "cluster");
  }
  buttons.forEach((button) => button.addEventListener("click", () => {
    buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    choose(button.dataset.filter, search.value);
  }));
  search?.addEventListener("input", () => choose(buttons.find((one) => one.getAttribute("aria-pressed") === "true").dataset.filter, search.value));

  // Topics at risk: the first rows, or those that match.
  const table = document.querySelector("#at-risk table"), find = document.getElementById("find-topic-at-risk");
  find?.addEventListener("input", () => {
    const text = find.value.trim().toLowerCase(), rows = [...table.querySelectorAll("tr[data-name]")];
    const matches = rows.filter((row) => row.dataset.name.toLowerCase().includes(text)), shown = new Set(matches.slice(0, Number(table.dataset.most)));
    rows.forEach((row) => { row.hidden = !shown.has(row); });
    for (const body of table.tBodies) body.hidden = ![...body.rows].some((row) => shown.has(row));
    const more = matches.length - shown.size;
    document.getElementById("topics-at-risk").textContent = text === "" ? "" : `${charts.count(matches.length, "row")}${more ? `, the first ${shown.size}` : ""}`;
  });

  // A link to a cluster unfolds it.
  function unfold() {
    const target = /^#c\d+$/.test(location.hash) && document.querySelector(location.hash);
    if (!target) return;
    target.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  // A click on the same link again changes no hash.
  document.querySelectorAll('a[href^="#c"]').forEach((link) => link.addEventListener("click", () => { if (link.hash === location.hash) unfold(); }));
  unfold();

  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll("[data-topics]").forEach(topics.searchable);
})();
