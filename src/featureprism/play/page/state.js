// The whole state of the page lives in its address, after the #, so that a view can be shared and opened without a server.
const State = (() => {
  const defaults = {
    tab: "clusters", theme: "",
    classes: "+++---", overlap: "0.2", labels: "two", activation: "prelu", p: "1", start: "-4", seed: "0", home: "0", towards: "mean",
    frame: "", s: "1", t: "0", was: "",
    points: "-0.6,0.5,+;-0.4,0.6,+;-0.5,0.35,+;0.5,-0.5,+;0.6,-0.35,+;0.4,-0.6,+;-0.5,-0.5,-;-0.6,-0.3,-;-0.35,-0.6,-;0.5,0.5,-;0.35,0.6,-;0.6,0.4,-",
    noise: "0.1", clusters: "16", papersSeed: "0",
    hidden: "two-level", radius: "0.13", sparseSeed: "0", sparseFrame: "",
  };
  const sceneKeys = ["classes", "overlap", "labels", "activation", "p", "start", "seed", "home", "towards"];
  let now = { ...defaults };

  function read() {
    now = { ...defaults };
    for (const [key, value] of new URLSearchParams(location.hash.slice(1))) if (key in defaults) now[key] = value;
    return now;
  }
  function set(changes) {
    for (const key in changes) now[key] = String(changes[key]);
    const words = new URLSearchParams();
    for (const key in now) if (now[key] !== defaults[key]) words.set(key, now[key]);
    const text = words.toString();
    history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
    return now;
  }
  const scene = (of = now) => Object.fromEntries(sceneKeys.map(key => [key, of[key] ?? defaults[key]]));
  const word = scene => new URLSearchParams(Object.entries(scene).filter(([key, value]) => value !== defaults[key])).toString();
  const sceneOf = word => scene({ ...defaults, ...Object.fromEntries(new URLSearchParams(word)) });
  return { defaults, read, set, scene, word, sceneOf, get: key => now[key] };
})();
