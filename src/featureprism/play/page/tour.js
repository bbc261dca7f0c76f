// A guided tour: the story of feature averaging in six steps, and what every figure shows.
const Tour = (() => {
  const { byId } = Draw;
  const base = { tab: "clusters", classes: "+++---", overlap: "0.2", labels: "two", activation: "prelu", p: "1", start: "-4", seed: "0", home: "0", towards: "mean", frame: "", s: "1", t: "0", was: "" };
  const steps = [
    { state: {}, look: "fig-compass", text: "Six groups of points, numbered on the rim: three of class + (orange), three of class − (blue). The dots are neurons. They are trained with <b>two labels</b>. Watch them: each neuron turns to the <b>middle</b> of the clusters of its class. This is <i>feature averaging</i>." },
    { state: {}, look: "fig-slice", text: "The trained network in a plane through the data. The white ring is a point; drag it. Inside the green ball nothing can change the answer: that is <b>proven</b>. The red cross is a point of the other answer. The ball is small although the clusters are far apart." },
    { state: {}, look: "fig-curve", text: "How many points still get the right answer when they may be moved by a given distance. They break near 1/√6 = 0.41. The dotted line moves <b>all points in one and the same direction</b>, and breaks nearly as many: the network has one weak direction for everything." },
    { state: { labels: "all" }, look: "fig-compass", text: "The same points and the same descent, but with <b>a label for each cluster</b>. Now every neuron goes to one cluster, on the rim." },
    { state: { labels: "all" }, look: "fig-curve", text: "The network is far more robust (the grey band is the run before), and no single direction breaks it: to change an answer one has to overcome one whole detector and wake another." },
    { state: { p: "3" }, look: "fig-curve", text: "Two labels again, but neurons that answer with the <b>third power</b> of their input. The neuron that is closest to a cluster now learns it fastest, so that neurons part by themselves, and the radius comes close to √2/2, the best that any classifier can reach." },
  ];
  let at = -1;

  function go(index) {
    at = index;
    for (const figure of document.querySelectorAll(".looked-at")) figure.classList.remove("looked-at");
    byId("tour").hidden = at < 0 || at >= steps.length;
    if (byId("tour").hidden) { at = -1; return; }
    const step = steps[at], before = State.word(State.scene());
    byId("tour-text").innerHTML = `<b>${at + 1} of ${steps.length}.</b> ${step.text}`;
    byId("tour-back").disabled = at === 0;
    byId("tour-next").textContent = at === steps.length - 1 ? "Done" : "Next";
    const wanted = { ...base, ...step.state };
    if (State.get("tab") !== "clusters" || State.word(State.scene(wanted)) !== before) {
      State.set({ ...wanted, was: Object.keys(step.state).length ? State.word(State.scene(base)) : "" }); // compared with the first run
      Main.show("clusters");
      Clusters.open();
    }
    byId(step.look).classList.add("looked-at");
    byId("tour").scrollIntoView({ block: "nearest" });
  }
  function start() {
    byId("tour-start").addEventListener("click", () => go(0));
    byId("tour-next").addEventListener("click", () => go(at + 1));
    byId("tour-back").addEventListener("click", () => go(at - 1));
    byId("tour-end").addEventListener("click", () => go(-1));
  }
  return { start, go, steps };
})();
