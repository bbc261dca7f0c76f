// The exact checker in an interpreter of its own. Everything is loaded from beside this file, nothing from another host.

import { loadPyodide } from "./pyodide/pyodide.mjs";

const GLUE = `
import json, sys, time
import exact

def judged(proofs, model, points, report):
    proofs, model, points = (bytes(part.to_py()) for part in (proofs, model, points))
    report("work", exact.estimate(proofs, model))
    start = time.monotonic()
    verified = exact.verify(proofs, model, points, progress=lambda share: report("share", share))
    archive = exact.Archive(proofs, "proof file")
    certified = list(archive["certified"].flat)
    lower, upper = min(archive["lower"].flat), max(archive["upper"].flat)
    header = json.loads(archive.word("header"))
    return json.dumps({
        "verified": [repr(t) for t in verified],
        "certified": [repr(t) for t in certified],
        "holds": [v >= c for v, c in zip(verified, certified, strict=True)],
        "norm": header["norm"],
        "bounds": None if lower == -exact.math.inf and upper == exact.math.inf else f"[{lower:g}, {upper:g}]",
        "model": header["model"]["sha256"],
        "points": header["points"]["sha256"],
        "seconds": time.monotonic() - start,
        "python": sys.version.split()[0],
    })

def answered(*parts):
    try:
        return judged(*parts)
    except ValueError as error:
        return json.dumps({"error": str(error)})
answered
`;

async function start() {
  const python = await loadPyodide();
  const source = await fetch(new URL("exact.py", import.meta.url));
  if (!source.ok) throw new Error("exact.py is not here");
  python.FS.writeFile("/home/pyodide/exact.py", await source.text());
  return python.runPython(GLUE);
}

const ready = start();

self.onmessage = async ({ data }) => {
  let answered;
  try {
    answered = await ready;
  } catch (error) {
    self.postMessage({ error: `the interpreter could not be started (${error.message}).` });
    return;
  }
  const parts = ["proofs", "model", "points"].map((name) => new Uint8Array(data[name]));
  const result = JSON.parse(answered(...parts, (name, value) => self.postMessage({ [name]: value })));
  self.postMessage(result.error === undefined ? { result } : result);
};
