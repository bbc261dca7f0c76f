// The scenes of two more papers: one step that amplifies random features, and one perturbation that breaks every point.
const PapersTab = (() => {
  const { byId, round, scale, axes, path } = Draw;
  let svg = null, player, opening, frames = [], networks = [], stop = new AbortController(), opened = "";

  function start() {
    if (!svg) prepare();
    const words = JSON.stringify([choice("xor"), choice("edge")]);
    if (opened !== words) { opened = words; run(); }
  }
  const choice = scene => scene === "xor" ? { noise: State.get("noise"), seed: State.get("papersSeed") } : { clusters: State.get("clusters"), seed: State.get("papersSeed") };
  function prepare() {
    svg = { xor: Draw.figure("fig-xor", 400, 400, "Neurons in the plane of the two directions"), learned: Draw.figure("fig-learned", 400, 400, "Alignment and accuracy over the steps"),
      trained: Draw.figure("fig-trained", 400, 400, "Margins of the trained network along one perturbation"), robust: Draw.figure("fig-robust", 400, 400, "Margins of the robust network along the same perturbation") };
    player = new Player({ button: byId("xor-play"), slider: byId("xor-frame"), show });
    const form = byId("papers-choices");
    form.addEventListener("submit", event => event.preventDefault());
    form.addEventListener("input", labels);
    form.addEventListener("change", event => { if (event.target.name) { State.set({ [event.target.name]: event.target.value }); start(); } });
    byId("edge-length").addEventListener("input", drawEdges);
    byId("papers-again").addEventListener("click", () => { State.set({ papersSeed: (Number(State.get("papersSeed")) + 1) % 1000 }); start(); });
    if (Source.isRecorded) for (const control of form.elements) control.disabled = true;
  }
  function labels() { for (const output of byId("papers-choices").querySelectorAll("output[data-for]")) output.textContent = byId("papers-choices").elements[output.dataset.for].value; }
  async function run() {
    stop.abort();
    stop = new AbortController();
    const signal = stop.signal, form = byId("papers-choices");
    for (const name of ["noise", "clusters"]) form.elements[name].value = State.get(name);
    labels();
    [opening, frames, networks] = [null, [], []];
    player.playing = player.complete = false;
    player.reset();
    Main.error("");
    try {
      await Source.papers("amplification", choice("xor"), row => { if (!signal.aborted) hearXor(row); }, signal);
      player.complete = true;
      if (!signal.aborted && frames.length) { player.go(0); verdict(); }
      await Source.papers("double-edged", choice("edge"), row => { if (!signal.aborted) { networks.push(row); drawEdges(); } }, signal);
      document.body.dataset.papers = "done";
    } catch (error) { if (error.name !== "AbortError") Main.error(error.message); }
  }
  function hearXor(row) {
    if (row.kind === "opening") opening = row;
    else { frames.push(row); player.grow(frames.length - 1); }
  }
  function show(index) {
    const frame = frames[index], at = ([s, t]) => [200 + 165 * s, 200 - 165 * t];
    const points = opening.points.map((place, i) => { const [x, y] = at(place); return `<circle class="point ${opening.labels[i] > 0 ? "plus" : "minus"}" cx="${round(x)}" cy="${round(y)}" r="2.2"/>`; });
    const neurons = frame.places.map((place, j) => { const [x, y] = at(place); return `<line class="trail ${frame.signs[j] > 0 ? "plus" : "minus"}-line" x1="200" y1="200" x2="${round(x)}" y2="${round(y)}"/><circle class="neuron ${frame.signs[j] > 0 ? "plus" : "minus"}" cx="${round(x)}" cy="${round(y)}" r="5"/>`; });
    svg.xor.innerHTML = `<circle class="rim" cx="200" cy="200" r="165"/>${points.join("")}${neurons.join("")}<text class="small" x="200" y="396" text-anchor="middle">on the rim: the neuron lies in the plane of the two directions</text>`;
    const x = scale(0, frames.length - 1, 46, 388), y = scale(0, 1, 340, 40);
    svg.learned.innerHTML = axes({ x, y, box: [46, 388, 340, 40], xLabel: "steps of descent", yLabel: "length of a shadow (orange), points right (blue)", xTicks: [0, 1, 5, 10, 20].map(v => [v, v]), yTicks: [[0, "0"], [0.5, "0.5"], [1, "1"]] }) +
      `<path class="line plus-line" d="${path(frames.map((f, i) => [x(i), y(f.length)]))}"/><path class="line minus-line" d="${path(frames.map((f, i) => [x(i), y(f.accuracy)]))}"/><line class="now" x1="${round(x(index))}" x2="${round(x(index))}" y1="40" y2="340"/>`;
    byId("xor-moment").textContent = `step ${frame.step} · ${(100 * frame.accuracy).toFixed(0)} % right`;
  }
  function verdict() {
    const [first, second] = frames, last = frames[frames.length - 1];
    byId("papers-verdict").innerHTML = `One step of descent lengthens a neuron's shadow in the plane of the two useful directions from <b>${first.length.toFixed(2)}</b> to <b>${second.length.toFixed(2)}</b>; after ${last.step} steps ${(100 * last.accuracy).toFixed(0)} % of new points are right, although ${(100 * State.get("noise")).toFixed(0)} % of the training labels are wrong.`;
  }
  // The margin of every point along one perturbation: below zero the point is lost.
  function drawEdges() {
    const at = Number(byId("edge-length").value), words = [];
    for (const network of networks) {
      const x = scale(0, 0.75, 46, 388), y = scale(-1, 1.3, 340, 40), place = Math.round(at / 0.75 * (network.lengths.length - 1));
      const lines = network.margins.map((row, i) => `<path class="trail ${network.labels[i] > 0 ? "plus" : "minus"}-line" d="${path(row.map((m, j) => [x(network.lengths[j]), y(Math.max(-1, Math.min(1.3, m)))]))}"/>`);
      svg[network.name].innerHTML = axes({ x, y, box: [46, 388, 340, 40], xLabel: "length of the one perturbation ÷ √d", yLabel: "margin of each of 48 new points", xTicks: [0, 0.25, 0.5, 0.75].map(v => [v, v]), yTicks: [[0, "0"], [1, "1"]] }) +
        `${lines.join("")}<line class="boundary" x1="46" x2="388" y1="${round(y(0))}" y2="${round(y(0))}"/><line class="now" x1="${round(x(at))}" x2="${round(x(at))}" y1="40" y2="340"/>`;
      words.push(`${network.name === "trained" ? "the trained network gets" : "the robust network"} <b>${(100 * network.right[place]).toFixed(0)} %</b>`);
    }
    byId("edge-verdict").innerHTML = words.length === 2 ? `At length ${at.toFixed(2)} √d ${words.join(", ")} of the points right. One perturbation is enough for all of them.` : "Training…";
  }
  return { start, redraw: () => { if (frames.length) show(player.index); drawEdges(); }, player: () => player };
})();
