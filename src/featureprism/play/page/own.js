// The third tab: a person's own model and points.
const OwnTab = (() => {
  const { byId, escape, number } = Draw;
  let svg = null, rows = [], pictures = [], side = 0, opening = null, stop = new AbortController();

  function start() {
    if (svg) return;
    svg = { brackets: Draw.figure("fig-brackets", 400, 380, "Brackets of all points"), curve: Draw.figure("fig-own-curve", 400, 380, "Robust accuracy of your model") };
    byId("own-choices").addEventListener("submit", event => event.preventDefault());
    byId("own-run").addEventListener("click", run);
    byId("csv-own").addEventListener("click", () => Draw.saveCsv(rows, "brackets.csv"));
    if (Source.isRecorded) {
      byId("own-note").textContent = "This page has no library behind it: what you see is a recording, an sklearn MLP on handwritten digits.";
      for (const id of ["own-model", "own-data", "own-run"]) byId(id).disabled = true;
      run();
    }
  }
  function say(error) { byId("own-error").textContent = error; byId("own-error").hidden = !error; }
  async function run() {
    stop.abort();
    stop = new AbortController();
    const signal = stop.signal, files = { model: byId("own-model").files[0], data: byId("own-data").files[0] };
    say("");
    [rows, pictures, opening] = [[], [], null];
    byId("cards").innerHTML = "";
    draw();
    try {
      for (const kind of ["model", "data"]) if (files[kind]) await Source.give(kind, files[kind]);
      byId("own-verdict").textContent = "Reading…";
      await Source.own(row => { if (!signal.aborted) hear(row); }, signal);
      byId("own-run").dataset.done = String(rows.length);
    } catch (error) { if (error.name !== "AbortError") { say(error.message); byId("own-verdict").textContent = ""; } }
  }
  function hear(row) {
    if (row.kind === "opening") { opening = row; byId("own").classList.remove("empty"); }
    if (row.kind === "cards") byId("cards").innerHTML = row.cards.map(Figures.card).join("") || "<p>Cards are for models with one hidden layer.</p>";
    if (row.kind === "brackets") rows.push(...row.rows);
    if (row.kind === "pictures") { side = row.side; pictures.push(...row.pictures); }
    draw();
  }
  // The least radius within which half of the points break.
  const halfOf = rows => rows.map(r => r.attacked ?? Infinity).sort((a, b) => a - b)[Math.ceil(rows.length / 2) - 1];
  function draw() {
    Figures.brackets(svg.brackets, rows, opening?.bracketed ?? 10);
    Figures.ownCurve(svg.curve, rows);
    const worst = [...rows].sort((a, b) => (a.attacked ?? Infinity) - (b.attacked ?? Infinity)).slice(0, 8);
    byId("worst").tBodies[0].innerHTML = worst.map(r => `<tr><td>${r.point}</td><td>${escape(r.label)}</td><td>${escape(r.predicted)}</td><td>${escape(r.rival)}</td><td>${number(r.certified)}</td><td>${number(r.attacked)}</td><td>${escape(r.method)}</td></tr>`).join("");
    byId("own-pictures").hidden = !pictures.length;
    byId("pictures").innerHTML = worst.filter(r => pictures.some(p => p.point === r.point)).slice(0, 6).map(r => Figures.broken(r, pictures.find(p => p.point === r.point), side)).join("");
    if (!opening) return;
    const closed = rows.filter(r => r.attacked !== null && r.certified >= 0.98 * r.attacked).length, half = halfOf(rows);
    const part = opening.bracketed < opening.points ? ` (the first ${opening.bracketed} of ${opening.points})` : "";
    byId("own-verdict").innerHTML = `${rows.length} of ${opening.bracketed} points${part}, ${opening.dim} dimensions, ${opening.classes.length} classes: ` + (rows.length ? `half of them break within <b>${number(half)}</b>; ${closed} brackets closed to 2 %.` : "proving…") + (opening.reason ? ` Only attacks: ${escape(opening.reason)}.` : "");
  }
  return { start, halfOf, redraw: () => {} };
})();
