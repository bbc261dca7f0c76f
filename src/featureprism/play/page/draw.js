// Small helpers for figures: SVG text, scales, axes, and files to keep.
const Draw = (() => {
  const byId = id => document.getElementById(id);
  const escape = text => String(text).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
  const round = (v, digits = 1) => Number(v).toFixed(digits);
  const scale = (from, to, start, end) => v => start + (end - start) * (v - from) / (to - from || 1);
  const number = v => v === null || v === undefined ? "∞" : Number(v).toPrecision(3);
  const isNumber = v => v !== null && v !== undefined;

  // A figure: an SVG of fixed inner size that scales with the page, and a button that saves it.
  function figure(id, width, height, label) {
    const holder = byId(id);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    holder.append(svg);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "save";
    button.textContent = "SVG";
    button.title = "Save this figure";
    button.addEventListener("click", () => saveSvg(svg, id.replace("fig-", "") + ".svg"));
    holder.querySelector("figcaption").append(button);
    return svg;
  }

  const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "font-weight", "text-anchor"];
  function asSvgText(svg) {
    const copy = svg.cloneNode(true);
    const originals = svg.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((node, i) => {
      const style = getComputedStyle(originals[i]);
      for (const name of KEPT) node.setAttribute(name, style.getPropertyValue(name));
      node.removeAttribute("class");
    });
    const box = svg.viewBox.baseVal;
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    copy.setAttribute("font-family", "system-ui, sans-serif");
    copy.insertAdjacentHTML("afterbegin", `<rect width="100%" height="100%" fill="${getComputedStyle(document.body).getPropertyValue("--card")}"/>`);
    return new XMLSerializer().serializeToString(copy);
  }
  function save(text, name, type) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  const saveSvg = (svg, name) => save(asSvgText(svg), name, "image/svg+xml");
  function asCsv(rows) {
    if (!rows.length) return "";
    const columns = Object.keys(rows[0]);
    const cell = v => v === null || v === undefined ? "inf" : /[",\n]/.test(v) ? `"${String(v).replaceAll('"', '""')}"` : String(v);
    return [columns.join(","), ...rows.map(row => columns.map(name => cell(row[name])).join(","))].join("\n") + "\n";
  }
  const saveCsv = (rows, name) => save(asCsv(rows), name, "text/csv");

  // Axes at the left and below with few ticks.
  function axes({ x, y, xTicks, yTicks, box, xLabel, yLabel }) {
    const [left, right, bottom, top] = box;
    const tickX = xTicks.map(([v, text]) => `<line class="tick" x1="${x(v)}" x2="${x(v)}" y1="${bottom}" y2="${bottom + 4}"/><text class="small" x="${x(v)}" y="${bottom + 15}" text-anchor="${x(v) > right - 4 ? "end" : "middle"}">${text}</text>`);
    const tickY = yTicks.map(([v, text]) => `<line class="grid" x1="${left}" x2="${right}" y1="${y(v)}" y2="${y(v)}"/><text class="small" x="${left - 6}" y="${y(v) + 3.5}" text-anchor="end">${text}</text>`);
    return `${tickY.join("")}<line class="axis" x1="${left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>${tickX.join("")}
      <text class="small" x="${(left + right) / 2}" y="${bottom + 31}" text-anchor="middle">${xLabel}</text>
      <text class="small" x="${left}" y="${top - 10}">${yLabel}</text>`;
  }
  // A few round numbers from 0 to a value, each with its text.
  function nice(most) {
    const rough = most / 4, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 2.5, 5, 10].find(m => m * power >= rough) * power;
    return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => [i * step, String(Number((i * step).toPrecision(3)))]);
  }
  const path = points => points.map(([x, y], i) => `${i ? "L" : "M"}${round(x)} ${round(y)}`).join("");
  function bytes(text) {
    const raw = atob(text);
    return Int8Array.from(raw, c => (c.charCodeAt(0) << 24) >> 24);
  }
  return { byId, escape, round, scale, number, isNumber, figure, asSvgText, saveSvg, saveCsv, asCsv, axes, nice, path, bytes };
})();
