"use strict";
// Heat maps of brokers (or groups of brokers) by brokers: failed brokers in columns, survivors in rows. Pointer and arrow keys read cells.
const heatMaps = (() => {
  const LABELLED = 12, FEW = 60; // numbers of brokers up to which cells show their values, and the diagonal is grey
  const MIN_WIDTH = 280, CELL_WIDTH = 72; // pixels: few brokers need no wide picture
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // say: describes a cell; text: its label; own: colour of the diagonal; null = as other cells.
  function heat({ name, names, valueAt, colour, say, crossed = () => false, text = String, own = "#8886" }) {
    const n = names.length, scale = Math.max(n > LABELLED ? 1 : 40, Math.floor(720 / n)), size = n * scale;
    const canvas = make("canvas", { width: size, height: size, tabindex: 0, role: "img", "aria-label": `${name}: ${n} by ${n} cells; arrow keys read them` });
    if (n > LABELLED) canvas.className = "pixels";
    const description = make("output", {}, "Point at a cell, or use the arrow keys.");
    const pen = canvas.getContext("2d");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (let x = 0; x < n; x++) {
      for (let y = 0; y < n; y++) {
        const value = valueAt(x, y);
        const fill = x === y && own ? own : value === null ? "#8884" : colour(value);
        pen.fillStyle = fill;
        pen.fillRect(x * scale, y * scale, scale, scale);
        if ((x !== y || !own) && crossed(x, y)) cross(pen, x, y, scale);
        if (n <= LABELLED && (x !== y || !own) && value !== null) {
          const label = text(value);
          pen.font = `${Math.floor(Math.min(scale * 0.34, (scale * 1.5) / label.length))}px system-ui, sans-serif`;
          pen.fillStyle = d3.lab(fill).l > 60 ? "#000" : "#fff";
          pen.fillText(label, (x + 0.5) * scale, (y + 0.5) * scale);
        }
      }
    }
    read(canvas, names, description, own, (x, y) => say(x, y, valueAt(x, y) ?? 0));
    const across = make("div", { class: "across", "aria-hidden": "true" }, ...ticks(names, "left"));
    const down = make("div", { class: "down", "aria-hidden": "true" }, ...ticks(names, "top"));
    down.style.width = `${Math.min(12, Math.max(...names.map((one) => String(one).length)))}ch`;
    const axes = make("div", { class: "axes" }, across, down, canvas);
    axes.style.maxWidth = `${Math.max(MIN_WIDTH, CELL_WIDTH * n)}px`;
    return make("div", { class: "heat" }, make("h4", {}, name), axes, description);
  }

  // In a cell of few pixels, a white cell stands for a cross.
  function cross(pen, x, y, scale) {
    const [left, top] = [x * scale, y * scale];
    if (scale < 8) {
      pen.fillStyle = "#fff";
      pen.fillRect(left, top, scale, scale);
      return;
    }
    pen.strokeStyle = "#fff9";
    pen.lineWidth = Math.max(1, scale / 40);
    pen.beginPath();
    pen.moveTo(left, top);
    pen.lineTo(left + scale, top + scale);
    pen.moveTo(left + scale, top);
    pen.lineTo(left, top + scale);
    pen.stroke();
  }

  // Ids of all brokers, or of some at even distances.
  function ticks(names, side) {
    const n = names.length, step = n <= LABELLED ? 1 : Math.ceil(n / 6);
    return names.flatMap((name, i) => {
      if (i % step) return [];
      const tick = make("span", {}, String(name));
      tick.style[side] = `${(100 * (i + 0.5)) / n}%`;
      return [tick];
    });
  }

  function read(canvas, names, description, own, say) {
    const n = names.length;
    let at = [0, Math.min(1, n - 1)];
    const describe = () => { description.textContent = at[0] === at[1] && own ? `broker ${names[at[0]]} itself` : say(at[0], at[1]); };
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const cell = (value, length) => Math.max(0, Math.min(n - 1, Math.floor((value / length) * n)));
      at = [cell(event.clientX - box.left, box.width), cell(event.clientY - box.top, box.height)];
      describe();
    });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      at = at.map((value, i) => Math.max(0, Math.min(n - 1, value + step[i])));
      describe();
    });
    canvas.addEventListener("focus", describe);
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

  return { heat, rampOf, make, FEW };
})();
