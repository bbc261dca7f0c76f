// The first tab: choices, the film of the training, the slice, the radius.
const Clusters = (() => {
  const { byId, number } = Draw;
  const svg = {};
  let slice, player, opening, frames = [], rows = [], summary = null, ghost = null, runs = [];
  let stop = new AbortController(), asking = null, wanted = null;

  function start() {
    if (player) return;
    svg.compass = Draw.figure("fig-compass", 400, 400, "Neurons between the centres");
    slice = new Slice("fig-slice", place => { State.set({ s: place[0].toFixed(3), t: place[1].toFixed(3) }); ask(); });
    svg.masses = Draw.figure("fig-masses", 400, 400, "Masses of the clusters over time");
    svg.curve = Draw.figure("fig-curve", 400, 400, "Robust accuracy against the radius");
    player = new Player({ button: byId("play"), slider: byId("frame"), show });
    player.stopped = () => { State.set({ frame: player.index === player.last && player.complete ? "" : player.index }); ask(); };
    byId("frame").addEventListener("change", () => State.set({ frame: player.index }));
    const form = byId("choices");
    form.addEventListener("submit", event => event.preventDefault());
    form.addEventListener("input", event => {
      const output = form.querySelector(`output[data-for="${event.target.name}"]`);
      if (output) output.textContent = event.target.value;
    });
    const chosen = event => { if (event.target.name) choose({ [event.target.name]: event.target.value }, event.target.name); };
    form.addEventListener("change", chosen);
    for (const radio of form.elements.labels) radio.addEventListener("change", chosen); // they stand outside of the form
    byId("powers").addEventListener("click", event => { const p = event.target.closest("[data-p]")?.dataset.p; if (p) setPower(p); });
    byId("more").addEventListener("click", () => resize(1));
    byId("fewer").addEventListener("click", () => resize(-1));
    byId("again").addEventListener("click", () => choose({ seed: (Number(State.get("seed")) + 1) % 1000 }, "seed"));
    byId("reset").addEventListener("click", () => choose(State.scene(State.defaults), "p"));
    byId("csv-runs").addEventListener("click", () => Draw.saveCsv(runs.map(run => run.row), "runs.csv"));
    byId("as-python").addEventListener("click", () => { byId("python").hidden = !byId("python").hidden; byId("python").textContent = asPython(); });
    byId("csv-brackets").addEventListener("click", () => Draw.saveCsv(rows.map(({ kind, ...row }) => row), "points.csv"));
    open();
  }

  const setPower = p => choose({ p, activation: "prelu", labels: "two" }, "p");
  const switchLabels = () => choose({ labels: State.get("labels") === "two" ? "all" : "two" }, "labels");
  function resize(by) {
    const classes = State.get("classes");
    if (Source.isRecorded) return void (recordedSize(by) && choose({ classes: recordedSize(by), home: 0, towards: "mean" }, "classes"));
    const plus = [...classes].filter(c => c === "+").length, minus = classes.length - plus;
    let next = classes;
    if (by > 0) next = plus <= minus ? "+" + classes : classes + "-";
    else next = plus >= minus ? classes.replace("+", "") : classes.slice(0, classes.lastIndexOf("-")) + classes.slice(classes.lastIndexOf("-") + 1);
    if (next.length >= 2 && next.length <= 12 && next.includes("+") && next.includes("-")) choose({ classes: next, home: 0, towards: "mean" }, "classes");
  }
  // The next recorded number of clusters above or below the one that is shown.
  function recordedSize(by) {
    const now = State.get("classes").length;
    return Source.values("classes").filter(c => by * (c.length - now) > 0).sort((a, b) => by * (a.length - b.length))[0];
  }
  function flip(k) {
    const signs = [...State.get("classes")];
    signs[k] = signs[k] === "+" ? "-" : "+";
    if (signs.includes("+") && signs.includes("-")) choose({ classes: signs.join(""), home: 0, towards: "mean" }, "classes");
  }
  // A new choice: what was there before stays as a ghost to compare with, unless only the plane changed.
  function choose(changes, changed) {
    const before = State.scene(), after = Source.snap({ ...before, ...Object.fromEntries(Object.entries(changes).map(([k, v]) => [k, String(v)])) }, changed);
    const onlySlice = ["home", "towards"].includes(changed);
    if (after.home === after.towards) after.towards = "mean";
    State.set({ ...after, frame: "", s: "1", t: "0", ...(onlySlice ? {} : { was: State.word(before) }) });
    if (!onlySlice && summary) ghost = { rows, summary, word: State.word(before) };
    open();
  }

  function controls() {
    const scene = State.scene(), form = byId("choices"), k = scene.classes.length;
    for (const name of ["overlap", "p", "start", "activation"]) form.elements[name].value = scene[name];
    for (const radio of form.elements.labels) radio.checked = radio.value === scene.labels;
    for (const output of form.querySelectorAll("output[data-for]")) output.textContent = scene[output.dataset.for];
    byId("count").textContent = `${k} clusters`;
    byId("all-labels").textContent = `${k} labels`;
    byId("chips").innerHTML = [...scene.classes].map((c, i) => `<button type="button" class="chip ${c === "+" ? "plus" : "minus"}-fill" data-k="${i}" aria-label="cluster ${i + 1}, class ${c}">${c === "+" ? "+" : "−"}</button>`).join("");
    byId("chips").querySelectorAll("button").forEach(b => b.addEventListener("click", () => flip(Number(b.dataset.k))));
    byId("powers").querySelectorAll("button").forEach(b => b.setAttribute("aria-pressed", b.dataset.p === scene.p && scene.labels === "two" && scene.activation === "prelu"));
    const names = [...scene.classes].map((c, i) => [String(i), `${i + 1} (${c === "+" ? "+" : "−"})`]);
    const fill = (name, options) => { form.elements[name].innerHTML = options.map(([v, text]) => `<option value="${v}">${text}</option>`).join(""); form.elements[name].value = scene[name]; };
    fill("home", names);
    fill("towards", [["mean", "the other class's mean"], ...names.filter(([v]) => v !== scene.home)]);
    for (const name of ["activation", "p"]) form.elements[name].disabled = scene.labels === "all" || (name === "p" && scene.activation === "tanh");
    if (Source.isRecorded) {
      for (const name of ["home", "towards"]) form.elements[name].disabled = true;
      for (const button of [byId("again"), ...byId("chips").querySelectorAll("button")]) button.disabled = true;
      byId("powers").querySelectorAll("button").forEach(b => { b.disabled = !Source.values("p").includes(b.dataset.p); });
      byId("more").disabled = !recordedSize(1);
      byId("fewer").disabled = !recordedSize(-1);
      for (const name of ["overlap", "p", "start", "activation"]) keepToRecorded(form.elements[name], Source.values(name));
    }
  }

  // A slider has the recorded values and no others; a choice of which one alone was recorded is closed.
  function keepToRecorded(control, values) {
    if (values.length < 2) { control.disabled = true; return; }
    if (control.type !== "range") return;
    const [first, ...others] = values.map(Number).sort((a, b) => a - b);
    [control.min, control.max, control.step] = [first, others[others.length - 1], others[0] - first];
    control.value = State.get(control.name);
  }

  async function open() {
    stop.abort();
    stop = new AbortController();
    if (Source.isRecorded) State.set(Source.snap(State.scene()));
    const signal = stop.signal, scene = State.scene(), wish = State.get("frame");
    Main.error("");
    controls();
    [frames, rows, summary, opening] = [[], [], null, null];
    player.playing = false;
    player.complete = false;
    player.reset();
    slice.place = [Number(State.get("s")), Number(State.get("t"))];
    slice.found = null;
    verdict();
    try {
      await Source.film(scene, row => { if (!signal.aborted) hear(row, wish); }, signal);
      if (signal.aborted) return;
      player.complete = true;
      if (wish !== "") { player.go(Number(wish)); ask(); }
      await Promise.all([bracket(scene, signal), haunt(signal)]);
    } catch (error) { if (error.name !== "AbortError") Main.error(error.message); }
  }
  function hear(row, wish) {
    if (row.kind === "opening") { opening = row; slice.open(row); return; }
    frames.push(row);
    player.grow(frames.length - 1);
    if (frames.length === 1) { drawCurve(); player.go(0); if (wish === "") player.play(); }
  }
  async function bracket(scene, signal) {
    await Source.brackets(scene, row => {
      if (signal.aborted) return;
      if (row.kind === "summary") { summary = row; remember(scene); } else rows.push(row);
      drawCurve();
      if (summary && !player.playing) show(player.index, true);
    }, signal);
    verdict();
  }
  // The run that this one is compared with, when the page is opened from an address that names it.
  async function haunt(signal) {
    const word = State.get("was");
    if (!word && !ghost) return;
    if (ghost && ghost.word === word) return drawCurve();
    if (!location.hash.includes("was=") && word === "") return;
    const found = { rows: [], summary: null, word };
    await Source.brackets(State.sceneOf(word), row => { if (row.kind === "summary") found.summary = row; else found.rows.push(row); }, signal);
    if (!signal.aborted) { ghost = found; drawCurve(); verdict(); }
  }

  function show(index, again = false) {
    const frame = frames[index];
    if (!frame) return;
    Figures.compass(svg.compass, opening, frames, index, player.complete && index === player.last ? summary?.direction : null);
    Figures.masses(svg.masses, opening, frames, index);
    if (!again) slice.found = null; // the answer was about another moment
    slice.draw(frame);
    byId("moment").textContent = `time ${number(frame.time)} · ${(100 * frame.accuracy).toFixed(0)} % right`;
    document.body.dataset.frame = index;
  }
  const drawCurve = () => { if (frames.length) Figures.curve(svg.curve, { rows, summary, ghost, total: 48 }); };

  // One question at a time; the last place asked for is asked next.
  async function ask() {
    if (!frames.length || player.playing) return;
    if (Source.isRecorded && player.index !== player.last) return;
    wanted = { place: [...slice.place], frame: player.index, signal: stop.signal };
    if (asking) return;
    while (wanted) {
      const one = wanted;
      wanted = null;
      asking = Source.nearest(State.scene(), one.frame, one.place[0], one.place[1], one.signal);
      try {
        const found = await asking;
        if (!wanted && !one.signal.aborted && !player.playing && one.frame === player.index) slice.tell(found);
      } catch (error) { if (error.name !== "AbortError") Main.error(error.message); }
    }
    asking = null;
  }

  // The same run in Python; numbers stay numbers, words become strings.
  function asPython() {
    const words = { classes: 1, labels: 1, activation: 1, towards: 1 }, scene = Object.entries(State.scene());
    const given = scene.filter(([key, value]) => value !== State.defaults[key]).map(([key, value]) => `${key}=${key in words ? JSON.stringify(value) : value}`);
    return `import featureprism as fp\nfrom featureprism.play.film import film\nfrom featureprism.play.scene import Scene, world\n\nscene = Scene(${given.join(", ")})\nnet = film(scene).end().net  # the trained network\ntest = world(scene).test\nprint(fp.robust_radius(net, test.x, test.y))\n`;
  }
  const neuronsOf = scene => scene.labels === "all" ? "ReLU" : scene.activation === "tanh" ? "tanh" : scene.p === "1" ? "ReLU" : `${scene.activation === "prelu" ? "pReLU" : "polynomial"} p = ${scene.p}`;
  const labelsOf = scene => scene.labels === "two" ? "two" : String(scene.classes.length);
  function remember(scene) {
    const half = summary.radii[summary.universal.findIndex(v => v <= 0.5)];
    const row = { clusters: scene.classes, labels: labelsOf(scene), neurons: neuronsOf(scene), overlap: scene.overlap, start: `1e${scene.start}`, proven: summary.certified, attacked: summary.attacked, one_direction: half ?? "none" };
    const word = State.word({ ...scene, home: "0", towards: "mean" });
    runs = [{ word, row }, ...runs.filter(run => run.word !== word)];
    byId("runs").tBodies[0].innerHTML = runs.map(({ row }, i) => `<tr${i ? "" : ' class="current"'}>${Object.entries(row).map(([key, v]) => `<td>${Draw.escape(typeof v === "number" ? v.toFixed(3) : v)}</td>`).join("")}</tr>`).join("");
  }
  function verdict() {
    const at = byId("verdict");
    document.body.dataset.radius = summary ? summary.attacked : "";
    if (!summary) { at.textContent = "Training, then proving…"; return; }
    const scene = State.scene(), pair = s => `<b>${s.attacked.toFixed(2)}</b>`, k = scene.classes.length;
    const before = ghost?.summary ? `${pair(ghost.summary)} → ` : "";
    const aligned = frames[frames.length - 1].aligned;
    const why = aligned > 0.9 ? "Every strong neuron has turned to one centre" : aligned < 0.75 && scene.p === "1" && scene.labels === "two" ? "Neurons average all centres of their class" : "Neurons mix several centres";
    at.innerHTML = `${why}: half of the points break at radius ${before}${pair(summary)} <span class="small-text">(proven ${summary.certified.toFixed(3)}; averaging breaks at <span class="whole">1/√${k} = ${summary.averaging.toFixed(2)}</span>, nothing can hold beyond 0.71)</span>`;
  }
  const redraw = () => { if (frames.length) { show(player.index, true); drawCurve(); } };
  return { start, open, setPower, switchLabels, redraw, player: () => player, asSvg: () => Draw.asSvgText(svg.curve) };
})();
