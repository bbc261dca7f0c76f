// The second tab: features before and after adversarial training.
const SparseTab = (() => {
  const { byId } = Draw;
  let svg = null, player, opening, frames = [], rows = [], stop = new AbortController(), opened = "";

  function start() {
    if (!svg) prepare();
    const words = choice();
    if (opened !== JSON.stringify(words)) run(words);
  }
  const choice = () => ({ hidden: State.get("hidden"), radius: State.get("radius"), seed: State.get("sparseSeed") });
  function prepare() {
    svg = { before: Draw.figure("fig-before", 400, 400, "Neurons after clean training"), after: Draw.figure("fig-after", 400, 400, "The same neurons after adversarial training"),
      purity: Draw.figure("fig-purity", 400, 380, "Purity over the steps"), curve: Draw.figure("fig-sparse-curve", 400, 380, "Robust accuracy of both networks") };
    player = new Player({ button: byId("sparse-play"), slider: byId("sparse-frame"), show });
    player.stopped = () => State.set({ sparseFrame: player.index === player.last ? "" : player.index });
    const form = byId("sparse-choices");
    form.addEventListener("submit", event => event.preventDefault());
    form.addEventListener("input", () => { form.querySelector("output").textContent = form.elements.radius.value; });
    form.addEventListener("change", event => { State.set({ [event.target.name]: event.target.value, sparseFrame: "" }); start(); });
    byId("sparse-again").addEventListener("click", () => { State.set({ sparseSeed: (Number(State.get("sparseSeed")) + 1) % 1000, sparseFrame: "" }); start(); });
    if (Source.isRecorded) for (const control of form.elements) control.disabled = true;
    byId("csv-sparse").addEventListener("click", () => Draw.saveCsv(frames.map(({ step, stage, purity, haze }) => ({ step, stage, purity, haze })), "purification.csv"));
  }
  async function run(words) {
    opened = JSON.stringify(words);
    stop.abort();
    stop = new AbortController();
    const signal = stop.signal, form = byId("sparse-choices"), wish = State.get("sparseFrame");
    for (const name of ["hidden", "radius"]) form.elements[name].value = words[name];
    form.querySelector("output").textContent = words.radius;
    [opening, frames, rows] = [null, [], []];
    player.playing = false;
    player.complete = false;
    player.reset();
    Main.error("");
    try {
      await Source.sparse(words, row => { if (!signal.aborted) hear(row, wish); }, signal);
      if (!signal.aborted) verdict();
    } catch (error) { if (error.name !== "AbortError") Main.error(error.message); }
  }
  function hear(row, wish) {
    if (row.kind === "progress") byId("sparse-verdict").textContent = `Training: ${(100 * row.done).toFixed(0)} %`;
    if (row.kind === "opening") { opening = row; byId("sparse-verdict").textContent = "Attacking both networks…"; }
    if (row.kind === "frame") { frames.push(row); player.grow(frames.length - 1); }
    if (row.kind === "accuracy") {
      if (!rows.length) { player.complete = true; if (wish !== "") player.go(Number(wish)); else { player.go(0); player.play(); } }
      rows.push(row);
      Figures.stages(svg.curve, rows);
    }
  }
  function show(index) {
    Figures.neurons(svg.before, opening, frames[Math.min(index, opening.clean)]);
    Figures.neurons(svg.after, opening, frames[Math.max(index, opening.clean)]);
    Figures.purity(svg.purity, opening, frames, index);
    byId("sparse-moment").textContent = `step ${frames[index].step}, ${frames[index].stage} training`;
    document.body.dataset.sparseFrame = index;
  }
  function verdict() {
    const clean = frames[opening.clean], last = frames[frames.length - 1], at = Number(State.get("radius"));
    const nearest = stage => rows.filter(r => r.stage === stage).reduce((best, r) => Math.abs(r.radius - at) < Math.abs(best.radius - at) ? r : best);
    const share = stage => `<b>${(100 * nearest(stage).worst).toFixed(0)} %</b>`;
    byId("sparse-verdict").innerHTML = `Every neuron keeps its feature; the haze of all the others falls from <b>${(100 * clean.haze).toFixed(0)} %</b> of its energy to <b>${(100 * last.haze).toFixed(0)} %</b>. At the radius of the training the network was right on ${share("clean")} of the points before and is right on ${share("adversarial")} after.`;
  }
  return { start, redraw: () => { if (opening && frames.length) { show(player.index); Figures.stages(svg.curve, rows); } }, player: () => player };
})();
