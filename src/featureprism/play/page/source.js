// Where pictures and answers come from: the server behind the page, or recordings beside it.
const Source = (() => {
  const recordings = window.PRISM_RECORDINGS || null; // set by recordings.js, which an exported page has

  async function lines(address, hear, signal) {
    const answer = await fetch(address, { signal });
    if (!answer.ok) throw new Error(`The server said ${answer.status}.`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      for (const part of parts) {
        const row = JSON.parse(part);
        if (row.error) throw new Error(row.error);
        hear(row);
      }
    }
  }
  const query = words => new URLSearchParams(words).toString();

  const live = {
    film: (scene, hear, signal) => lines("film?" + query(scene), hear, signal),
    brackets: (scene, hear, signal) => lines("brackets?" + query(scene), hear, signal),
    sparse: (words, hear, signal) => lines("sparse?" + query(words), hear, signal),
    drawn: (words, hear, signal) => lines("drawn?" + query(words), hear, signal),
    papers: (name, words, hear, signal) => lines(`papers/${name}?` + query(words), hear, signal),
    async nearest(scene, frame, s, t, signal) {
      const answer = await (await fetch("nearest?" + query({ ...scene, frame, s, t }), { signal })).json();
      if (answer.error) throw new Error(answer.error);
      return answer;
    },
    async give(kind, file) {
      const headers = { "x-featureprism": "page" };
      const answer = await (await fetch(`own/${kind}?` + query({ name: file.name }), { method: "PUT", body: file, headers })).json();
      if (answer.error) throw new Error(answer.error);
      return answer;
    },
    own: (hear, signal) => lines("own", hear, signal),
    snap: scene => scene,
  };

  const loaded = {};
  function load(file) { // a script, not a fetch: a page opened from a disk may not fetch
    loaded[file] ??= new Promise((resolve, reject) => {
      window.PRISM_HEARD ??= {};
      const script = document.createElement("script");
      script.src = "recordings/" + file;
      script.onload = () => resolve(window.PRISM_HEARD[file]);
      script.onerror = () => reject(new Error(`The recording ${file} is missing.`));
      document.head.append(script);
    });
    return loaded[file];
  }
  async function tell(file, part, hear, signal) {
    const recording = await load(file);
    for (const row of recording[part]) {
      if (signal?.aborted) return;
      hear(row);
    }
  }
  // The recorded choice nearest to what is asked for; what was changed last counts most.
  function closest(kind, words, changed) {
    const far = entry => Object.keys(entry.words).reduce((sum, key) => {
      const [a, b] = [entry.words[key], words[key]];
      if (a === b) return sum;
      const gap = isNaN(a) || isNaN(b) ? 1 : Math.min(1, Math.abs(a - b) / 4 + 0.1);
      return sum + (key === changed ? 100 : key === "classes" ? 5 : 1) * gap;
    }, 0);
    return recordings[kind].reduce((best, entry) => far(entry) < far(best) ? entry : best);
  }
  const recorded = {
    film: (scene, hear, signal) => tell(closest("scenes", scene).file, "film", hear, signal),
    brackets: (scene, hear, signal) => tell(closest("scenes", scene).file, "brackets", hear, signal),
    sparse: (words, hear, signal) => tell(closest("sparse", words).file, "rows", hear, signal),
    drawn: async () => { throw new Error("Training on your own points needs the library behind the page."); },
    papers: (name, words, hear, signal) => tell(`${name}.js`, "rows", hear, signal),
    async nearest(scene, _frame, s, t) {
      const { places } = await load(closest("scenes", scene).file);
      const far = row => Math.hypot(row.place[0] - s, row.place[1] - t);
      return places.reduce((best, row) => far(row) < far(best) ? row : best);
    },
    give: async () => ({}),
    own: (hear, signal) => tell(recordings.own, "rows", hear, signal),
    snap: (scene, changed) => ({ ...scene, ...closest("scenes", scene, changed).words }),
  };
  return { ...(recordings ? recorded : live), isRecorded: Boolean(recordings), values: key => [...new Set(recordings.scenes.map(entry => entry.words[key]))] };
})();
