// Points of one's own: press to draw them, train a network on them, and see the proven ball of each.
const DrawnTab = (() => {
  const { byId, round } = Draw;
  let svg = null, player, points = [], frames = [], balls = [], stop = new AbortController();
  const toPage = ([s, t]) => [200 + 200 * s, 200 - 200 * t];

  function start() {
    if (svg) return;
    svg = Draw.figure("fig-drawn", 400, 400, "Points in the plane; press to add one, press a point to remove it");
    player = new Player({ button: byId("drawn-play"), slider: byId("drawn-frame"), show: () => draw() });
    points = State.get("points").split(";").filter(Boolean).map(part => { const [s, t, sign] = part.split(","); return [Number(s), Number(t), sign]; }).filter(([s, t, sign]) => Math.abs(s) <= 1 && Math.abs(t) <= 1 && "+-".includes(sign));
    svg.addEventListener("click", event => {
      const box = svg.getBoundingClientRect(), s = 2 * (event.clientX - box.left) / box.width - 1, t = 1 - 2 * (event.clientY - box.top) / box.height;
      const near = points.findIndex(([a, b]) => Math.hypot(a - s, b - t) < 0.04);
      if (near >= 0) points.splice(near, 1);
      else points.push([Number(s.toFixed(2)), Number(t.toFixed(2)), byId("drawn-choices").elements.sign.value]);
      changed();
    });
    const form = byId("drawn-choices");
    form.addEventListener("submit", event => event.preventDefault());
    form.addEventListener("input", () => { for (const output of form.querySelectorAll("output[data-for]")) output.textContent = form.elements[output.dataset.for].value; });
    byId("drawn-train").addEventListener("click", train);
    byId("drawn-clear").addEventListener("click", () => { points = []; changed(); });
    if (Source.isRecorded) { byId("drawn-verdict").textContent = "Training on your own points needs the library behind the page: featureprism play."; byId("drawn-train").disabled = true; }
    draw();
  }
  function changed() {
    stop.abort();
    [frames, balls] = [[], []];
    player.reset();
    State.set({ points: points.map(point => point.join(",")).join(";") });
    draw();
  }
  async function train() {
    stop.abort();
    stop = new AbortController();
    const signal = stop.signal, form = byId("drawn-choices");
    [frames, balls] = [[], []];
    player.reset();
    player.complete = false;
    Main.error("");
    byId("drawn-verdict").textContent = "Training, then proving…";
    try {
      await Source.drawn({ points: State.get("points"), width: form.elements.width.value, p: form.elements.drawnPower.value }, row => {
        if (signal.aborted) return;
        if (row.kind === "frame") { frames.push(row); player.grow(frames.length - 1); if (frames.length === 1) player.go(0); }
        else balls.push(row);
      }, signal);
      if (signal.aborted) return;
      player.complete = true;
      player.play();
      const radii = balls.map(ball => ball.attacked).sort((a, b) => a - b), half = radii[Math.ceil(radii.length / 2) - 1];
      byId("drawn-verdict").innerHTML = `${(100 * frames[frames.length - 1].accuracy).toFixed(0)} % of the points are right, and half of them break within <b>${Draw.number(half)}</b>. The green balls are proven.`;
      document.body.dataset.drawn = balls.length;
    } catch (error) { if (error.name !== "AbortError") { Main.error(error.message); byId("drawn-verdict").textContent = ""; } }
  }
  function draw() {
    const frame = frames[player.index], parts = [];
    if (frame) {
      const n = 44, f = Draw.bytes(frame.decisions), size = 400 / n;
      f.forEach((v, i) => parts.push(`<rect class="${v >= 0 ? "plus" : "minus"}" x="${round(size * (i % n))}" y="${round(size * Math.floor(i / n))}" width="${round(size + 0.3)}" height="${round(size + 0.3)}" fill-opacity="${(0.08 + 0.35 * Math.abs(v) / 127).toFixed(2)}"/>`));
      byId("drawn-moment").textContent = `step ${frame.step} · ${(100 * frame.accuracy).toFixed(0)} % right`;
    } else byId("drawn-moment").textContent = "";
    if (frame && player.index === player.last && player.complete) for (const ball of balls) {
      const [x, y] = toPage(points[ball.point]);
      parts.push(`<circle class="ball" cx="${round(x)}" cy="${round(y)}" r="${round(200 * ball.certified)}"/>`);
    }
    for (const point of points) { const [x, y] = toPage(point); parts.push(`<circle class="centre ${point[2] === "+" ? "plus" : "minus"}" cx="${round(x)}" cy="${round(y)}" r="6"/>`); }
    svg.innerHTML = `<rect class="frame" width="400" height="400" fill-opacity="0"/>${parts.join("")}`;
  }
  return { start, redraw: () => { if (svg) draw(); }, player: () => player };
})();
