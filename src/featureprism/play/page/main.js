// Tabs, keyboard, theme, sharing.
const Main = (() => {
  const { byId } = Draw;
  const tabs = { clusters: Clusters, sparse: SparseTab, papers: PapersTab, drawn: DrawnTab, own: OwnTab };

  function error(text) { byId("error").textContent = text; byId("error").hidden = !text; }
  function show(name) {
    const tab = name in tabs ? name : "clusters";
    for (const other in tabs) {
      byId(other).hidden = other !== tab;
      byId("tab-" + other).setAttribute("aria-selected", other === tab);
      byId("tab-" + other).tabIndex = other === tab ? 0 : -1;
    }
    State.set({ tab });
    if (tab !== "clusters") Clusters.player()?.pause();
    tabs[tab].start();
  }
  function theme(name) {
    if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme;
    for (const tab of Object.values(tabs)) tab.redraw();
  }
  const isDark = () => document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const player = State.get("tab") === "papers" ? PapersTab.player() : State.get("tab") === "drawn" ? DrawnTab.player() : State.get("tab") === "sparse" ? SparseTab.player() : State.get("tab") === "clusters" ? Clusters.player() : null;
    const typing = event.target.matches("input, select, textarea");
    if (event.target.matches("[role=tab]") && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
      const names = Object.keys(tabs), next = names[(names.indexOf(event.target.dataset.tab) + (event.key === "ArrowRight" ? 1 : names.length - 1)) % names.length];
      show(next);
      byId("tab-" + next).focus();
    } else if (typing || !player) return;
    else if (event.key === " " && !event.target.matches("button")) { event.preventDefault(); if (player.playing) player.pause(); else player.play(); }
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") { player.go(player.index + (event.key === "ArrowRight" ? 1 : -1)); player.pause(); } // pausing keeps the frame in the address
    else if (State.get("tab") === "clusters" && ["1", "2", "3"].includes(event.key)) Clusters.setPower(event.key);
    else if (State.get("tab") === "clusters" && event.key === "l") Clusters.switchLabels();
  }

  function start() {
    State.read();
    byId("recorded").hidden = !Source.isRecorded;
    Tour.start();
    document.querySelectorAll("[role=tab]").forEach(tab => tab.addEventListener("click", () => show(tab.dataset.tab)));
    document.addEventListener("keydown", keys);
    byId("theme").addEventListener("click", () => { const name = isDark() ? "light" : "dark"; State.set({ theme: name }); theme(name); });
    byId("share").addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(location.href); byId("share").textContent = "Copied"; } catch { byId("share").textContent = "It is in the address bar"; }
      setTimeout(() => { byId("share").textContent = "Copy link"; }, 1500);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(State.get("theme")));
    window.addEventListener("hashchange", () => { State.read(); theme(State.get("theme")); const fresh = !Clusters.player(); show(State.get("tab")); if (State.get("tab") === "clusters" && !fresh) Clusters.open(); });
    theme(State.get("theme"));
    show(State.get("tab"));
  }
  return { start, error, show };
})();
Main.start();
