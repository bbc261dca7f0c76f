// Typesets formulas, filters claims, enlarges figures. The choice of a filter is kept in the address, so that a view can be shared.
for (const place of document.querySelectorAll(".math"))
  katex.render(place.textContent, place, { displayMode: place.classList.contains("display"), throwOnError: false });

for (const form of document.querySelectorAll(".filters")) {
  const fields = [...form.querySelectorAll("[data-filter]")];
  const cards = [...document.querySelectorAll(".claims.all .claim, details.item .claim")];
  const wished = new URLSearchParams(location.search);
  for (const field of fields) field.value = wished.get(field.dataset.filter) ?? "";
  const show = () => {
    const wanted = Object.fromEntries(fields.map((f) => [f.dataset.filter, f.value.trim().toLowerCase()]));
    const words = (wanted.text ?? "").split(/\s+/).filter(Boolean);
    const chosen = Object.values(wanted).some(Boolean);
    let shown = 0;
    for (const card of cards) {
      const text = card.textContent.toLowerCase();
      const fits = ["verdict", "origin", "regime", "headline"].every((k) => !wanted[k] || card.dataset[k] === wanted[k]);
      card.hidden = !(fits && words.every((word) => text.includes(word)));
      shown += !card.hidden;
    }
    for (const item of document.querySelectorAll("details.item")) {
      const left = item.querySelector(".claim:not([hidden])");
      item.hidden = chosen && !left;
      if (chosen) item.open = Boolean(left);
    }
    form.querySelector("output").textContent = `${shown} of ${cards.length} claims`;
    const kept = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
    if (location.protocol !== "about:") history.replaceState(null, "", `${location.pathname}${kept.size ? "?" + kept : ""}${location.hash}`);
  };
  for (const event of ["input", "change"]) form.addEventListener(event, show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
}

const opened = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const item = target && target.closest("details");
  if (item) { item.open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", opened);
opened();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
for (const image of document.querySelectorAll("figure img")) image.addEventListener("click", () => image.classList.toggle("large"));
addEventListener("keydown", (event) => event.key === "Escape" && document.querySelectorAll("img.large").forEach((i) => i.classList.remove("large")));
