// Filters the table of claims below a form; the choice is kept in the address, so that a view can be shared.
for (const form of document.querySelectorAll(".atlas-filters")) {
  const fields = [...form.querySelectorAll("[data-filter]")];
  const rows = [...form.parentElement.querySelectorAll("table.claims tbody tr")];
  const asked = new URLSearchParams(location.search);
  for (const field of fields) field.value = asked.get(field.dataset.filter) ?? "";

  const show = () => {
    const wanted = Object.fromEntries(fields.map((f) => [f.dataset.filter, f.value.trim().toLowerCase()]));
    const words = wanted.text.split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const fits = ["verdict", "origin", "regime", "headline"].every((k) => !wanted[k] || row.dataset[k] === wanted[k]);
      row.hidden = !(fits && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    form.querySelector("output").textContent = `${shown} of ${rows.length} claims`;
    const kept = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value));
    if (location.protocol !== "about:") history.replaceState(null, "", `${location.pathname}${kept.size ? "?" + kept : ""}${location.hash}`);
  };
  for (const event of ["input", "change"]) form.addEventListener(event, show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
}
