// The slice: decisions in a plane, and a point that can be dragged through it with its proven ball and its nearest adversarial point.
class Slice {
  constructor(id, asked) {
    this.svg = Draw.figure(id, 400, 400, "Decisions of the network in a plane, with a point that can be moved");
    this.svg.innerHTML = `<g class="under"></g><g class="fixed"></g><g class="answer"></g><circle class="handle" r="8" tabindex="0" role="button" aria-label="The point: drag it, or move it with the arrow keys"/>`;
    this.under = this.svg.querySelector(".under");
    this.fixed = this.svg.querySelector(".fixed");
    this.answer = this.svg.querySelector(".answer");
    this.handle = this.svg.querySelector(".handle");
    this.canvas = document.createElement("canvas");
    this.asked = asked;
    this.place = [1, 0];
    this.listen();
  }
  toPage([s, t]) { const [l, r, b, u] = this.window; return [400 * (s - l) / (r - l), 400 * (u - t) / (u - b)]; }
  toPlane([x, y]) { const [l, r, b, u] = this.window; return [l + x / 400 * (r - l), u - y / 400 * (u - b)]; }
  get unit() { return 400 / (this.window[1] - this.window[0]); }

  listen() {
    let held = false;
    const at = event => { const box = this.svg.getBoundingClientRect(); return [400 * (event.clientX - box.left) / box.width, 400 * (event.clientY - box.top) / box.height]; };
    this.handle.addEventListener("pointerdown", event => { held = true; this.handle.setPointerCapture(event.pointerId); event.preventDefault(); this.handle.focus(); });
    this.handle.addEventListener("pointermove", event => { if (held) this.move(this.toPlane(at(event))); });
    this.handle.addEventListener("pointerup", event => { if (held) { held = false; this.move(this.toPlane(at(event))); } });
    this.handle.addEventListener("keydown", event => {
      const step = { ArrowLeft: [-0.05, 0], ArrowRight: [0.05, 0], ArrowUp: [0, 0.05], ArrowDown: [0, -0.05] }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      this.move([this.place[0] + step[0], this.place[1] + step[1]]);
    });
  }
  move([s, t]) {
    const [l, r, b, u] = this.window;
    this.place = [Math.max(l, Math.min(r, s)), Math.max(b, Math.min(u, t))];
    this.found = null;
    this.drawAnswer();
    this.asked(this.place);
  }
  open(opening) {
    this.window = opening.window;
    this.opening = opening;
    const points = this.opening.points.map((place, i) => { const [x, y] = this.toPage(place); return `<circle class="point ${this.opening.labels[this.opening.clusters[i]] > 0 ? "plus" : "minus"}" cx="${Draw.round(x)}" cy="${Draw.round(y)}" r="2.2"/>`; });
    const seen = {};
    const centres = this.opening.centres.map((place, k) => {
      const [x, y] = this.toPage(place), key = place.join();
      (seen[key] ??= { x, y, sign: this.opening.labels[k], names: [] }).names.push(k + 1);
      return key;
    }).filter((key, i, all) => all.indexOf(key) === i).map(key => { const c = seen[key]; return `<circle class="centre ${c.sign > 0 ? "plus" : "minus"}" cx="${Draw.round(c.x)}" cy="${Draw.round(c.y)}" r="6"/><text class="name" x="${Draw.round(c.x + 9)}" y="${Draw.round(c.y - 8)}">μ ${c.names.join(" ")}</text>`; });
    const [ox, oy] = this.toPage([0, 0]);
    this.fixed.innerHTML = `${points.join("")}${centres.join("")}<path class="origin" d="M${ox - 4} ${oy}h8M${ox} ${oy - 4}v8"/>`;
  }
  // f from the bytes of a frame: signed square roots in units of the largest value.
  draw(frame) {
    const n = this.opening.grid, f = Draw.bytes(frame.decisions), style = getComputedStyle(document.body);
    this.values = f;
    const colour = name => style.getPropertyValue(name).trim().match(/\w\w/g).map(h => parseInt(h, 16));
    const [plus, minus] = [colour("--plus"), colour("--minus")];
    this.canvas.width = this.canvas.height = n;
    const context = this.canvas.getContext("2d"), image = context.createImageData(n, n);
    f.forEach((v, i) => image.data.set([...(v >= 0 ? plus : minus), 40 + 1.1 * Math.abs(v)], 4 * i));
    context.putImageData(image, 0, 0);
    const half = 200 / (n - 1); // values stand on the corners of the grid, pixels are drawn around their middle
    this.boundary = this.contour(f, n);
    const lines = this.boundary.map(([a, b]) => `M${Draw.round(a[0])} ${Draw.round(a[1])}L${Draw.round(b[0])} ${Draw.round(b[1])}`).join("");
    this.under.innerHTML = `<image href="${this.canvas.toDataURL()}" x="${-half}" y="${-half}" width="${400 + 2 * half}" height="${400 + 2 * half}" preserveAspectRatio="none"/><path class="boundary" d="${lines}"/>`;
    this.drawAnswer();
  }
  // Marching squares: where f changes sign between neighbours, squares of the bytes being f itself.
  contour(f, n) {
    const at = (i, j) => Math.sign(f[i * n + j]) * f[i * n + j] ** 2, h = 400 / (n - 1), parts = [];
    for (let i = 0; i + 1 < n; i++) for (let j = 0; j + 1 < n; j++) {
      const corners = [[i, j], [i, j + 1], [i + 1, j + 1], [i + 1, j]], cuts = [];
      corners.forEach(([r, c], k) => {
        const [r2, c2] = corners[(k + 1) % 4], a = at(r, c), b = at(r2, c2);
        if ((a >= 0) !== (b >= 0)) { const q = a / (a - b); cuts.push([h * (c + q * (c2 - c)), h * (r + q * (r2 - r))]); }
      });
      for (let k = 0; k + 1 < cuts.length; k += 2) parts.push([cuts[k], cuts[k + 1]]);
    }
    return parts;
  }
  nearestInSlice([x, y]) {
    let best = null, least = Infinity;
    for (const [a, b] of this.boundary) {
      const [dx, dy] = [b[0] - a[0], b[1] - a[1]], long = dx * dx + dy * dy || 1;
      const q = Math.max(0, Math.min(1, ((x - a[0]) * dx + (y - a[1]) * dy) / long)), p = [a[0] + q * dx, a[1] + q * dy];
      const far = Math.hypot(p[0] - x, p[1] - y);
      if (far < least) [best, least] = [p, far];
    }
    return best;
  }
  tell(found) { this.found = found; this.drawAnswer(); }
  drawAnswer() {
    if (!this.boundary) return;
    const at = this.toPage(this.place), [x, y] = at.map(v => Draw.round(v)), parts = [];
    this.handle.setAttribute("cx", x);
    this.handle.setAttribute("cy", y);
    const inside = this.nearestInSlice(at);
    if (inside && !this.found) parts.push(`<line class="in-slice" x1="${x}" y1="${y}" x2="${Draw.round(inside[0])}" y2="${Draw.round(inside[1])}"/>`);
    if (this.found) {
      const { certified, attacked, witness, beside, place } = this.found;
      if (place[0] !== this.place[0] || place[1] !== this.place[1]) [this.place[0], this.place[1]] = place;
      const [cx, cy] = this.toPage(this.place).map(v => Draw.round(v));
      this.handle.setAttribute("cx", cx);
      this.handle.setAttribute("cy", cy);
      parts.push(`<circle class="ball" cx="${cx}" cy="${cy}" r="${Draw.round(certified * this.unit)}"/>`);
      if (Draw.isNumber(attacked)) {
        // A witness beside this plane is drawn at its true distance, hollow, in the direction of its shadow: never inside the proven ball.
        const isBeside = beside > 0.02, shadow = Math.hypot(witness[0], witness[1]) || 1, stretch = isBeside ? attacked / shadow : 1;
        const [wx, wy] = this.toPage([this.place[0] + stretch * witness[0], this.place[1] + stretch * witness[1]]).map(v => Draw.round(v));
        const mark = isBeside ? `<circle class="cross" cx="${wx}" cy="${wy}" r="5">` : `<path class="cross" d="M${wx - 5} ${wy - 5}l10 10M${wx - 5} ${+wy + 5}l10 -10">`;
        const words = isBeside ? `adversarial point at its true distance; it lies ${beside} beside this plane` : "nearest adversarial point";
        parts.push(`<circle class="attack" cx="${cx}" cy="${cy}" r="${Draw.round(attacked * this.unit)}"/><line class="witness${isBeside ? " aside" : ""}" x1="${cx}" y1="${cy}" x2="${wx}" y2="${wy}"/>${mark}<title>${words}</title>${isBeside ? "</circle>" : "</path>"}`);
      }
      const said = `proven ball ${Draw.number(certified)} · adversarial point at ${Draw.number(attacked)}` + (beside > 0.02 ? " beside this plane" : "");
      parts.push(`<rect class="plate" x="0" y="376" width="400" height="24"/><text class="small" x="200" y="392" text-anchor="middle">${said}</text>`);
    }
    this.answer.innerHTML = parts.join("");
    if (this.found) document.body.dataset.nearest = this.found.attacked; else delete document.body.dataset.nearest; // for who waits for the answer
  }
}
