// The page of the exact checker: three files in, a verdict on every claim out. The work is done by worker.js.

const SHOWN = 1000; // rows of the table
const WHAT = ["model", "points", "proofs"];
const byId = (id) => document.getElementById(`check-${id}`);
const files = {};
let worker = null;

function say(text, state = "") {
  byId("verdict").textContent = text;
  byId("verdict").dataset.state = state;
}

function choose(what, file) {
  files[what] = file;
  byId(`${what}-name`).textContent = `${file.name}, ${(file.size / 1024).toFixed(0)} kB`;
  byId("start").disabled = !WHAT.every((name) => files[name]);
}

for (const what of WHAT) {
  const zone = byId(`${what}-zone`);
  byId(what).addEventListener("change", (event) => event.target.files[0] && choose(what, event.target.files[0]));
  zone.addEventListener("dragover", (event) => event.preventDefault());
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) choose(what, event.dataTransfer.files[0]);
  });
}

function finish() {
  worker?.terminate();
  worker = null;
  byId("start").disabled = false;
  byId("stop").hidden = byId("progress").hidden = true;
}

function number(text) {
  return text === "inf" ? "∞" : String(Number(Number(text).toPrecision(6)));
}

function verdict(row) {
  if (!row.holds) return "not proven";
  return Number(row.certified) === 0 ? "no claim" : "proven";
}

function show(result) {
  const rows = result.verified.map((verified, i) => ({ verified, certified: result.certified[i], holds: result.holds[i] }));
  const claims = rows.filter((row) => Number(row.certified) !== 0).length; // a radius of 0 claims nothing
  const refused = rows.filter((row) => !row.holds).length;
  const norm = result.norm === "inf" ? "ℓ∞" : "ℓ2";
  const region = result.bounds ? `, with coordinates kept in ${result.bounds}` : "";
  say(
    refused
      ? `${refused} of ${claims} claims are not proven.`
      : `All ${claims} claims are proven: no perturbation shorter than the radius in ${norm}${region} changes the class, in real arithmetic.`,
    refused ? "refused" : "proven",
  );
  byId("about").textContent =
    `Model ${result.model.slice(0, 16)}, points ${result.points.slice(0, 16)} (SHA-256). ` +
    `Verified in ${result.seconds.toFixed(1)} s on this machine by Python ${result.python} in rational arithmetic.`;
  const body = byId("rows");
  body.replaceChildren();
  rows.slice(0, SHOWN).forEach((row, i) => {
    const line = body.insertRow();
    for (const text of [i, number(row.certified), number(row.verified), verdict(row)]) {
      line.insertCell().textContent = text;
    }
    line.dataset.state = row.holds ? "proven" : "refused";
  });
  byId("table").hidden = false;
}

byId("start").addEventListener("click", async () => {
  say("The interpreter is loading …");
  byId("about").textContent = "";
  byId("start").disabled = byId("table").hidden = true;
  byId("stop").hidden = byId("progress").hidden = false;
  byId("progress").removeAttribute("value");
  worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  worker.onerror = () => {
    say("The interpreter could not be loaded: this copy of the site was built without it, or was not opened from a server.", "refused");
    finish();
  };
  worker.onmessage = ({ data }) => {
    if (data.work !== undefined) say(`About ${data.work.toExponential(1)} multiplications …`);
    if (data.share !== undefined) byId("progress").value = data.share;
    if (data.error !== undefined) say(`Refused: ${data.error}`, "refused");
    if (data.result !== undefined) show(data.result);
    if (data.error !== undefined || data.result !== undefined) finish();
  };
  const contents = await Promise.all(WHAT.map((what) => files[what].arrayBuffer()));
  worker?.postMessage(Object.fromEntries(WHAT.map((what, i) => [what, contents[i]])));
});

byId("stop").addEventListener("click", () => {
  say("Stopped.");
  finish();
});
