// The figures that only look: compass, masses, curves, pictures of neurons, brackets.
const Figures = (() => {
  const { escape, round, scale, number, isNumber, axes, path, nice } = Draw;
  const side = sign => sign > 0 ? "plus" : "minus";

  // Neurons on the compass: on the rim where a neuron is one centre, between centres where it averages them.
  function compass(svg, opening, frames, index, direction) {
    const at = ([x, y]) => [200 + 145 * x, 182 - 145 * y];
    const frame = frames[index];
    const spokes = opening.compass.map(place => { const [x, y] = at(place); return `<line class="grid" x1="200" y1="182" x2="${round(x)}" y2="${round(y)}"/>`; });
    const centres = opening.compass.map((place, k) => {
      const [x, y] = at(place.map(v => 1.13 * v));
      return `<circle class="${side(opening.labels[k])} centre" cx="${round(x)}" cy="${round(y)}" r="11"/><text class="chip" x="${round(x)}" y="${round(y + 4)}" text-anchor="middle">${k + 1}</text>`;
    });
    const first = Math.max(0, index - 14);
    const trails = frame.places.map((_, j) => {
      const way = frames.slice(first, index + 1).map(f => at(f.places[j]));
      return `<path class="trail ${side(frame.signs[j])}-line" d="${path(way)}"/>`;
    });
    const dots = frame.places.map((place, j) => {
      const [x, y] = at(place);
      return `<circle class="neuron ${side(frame.signs[j])}" cx="${round(x)}" cy="${round(y)}" r="${round(2 + 9 * frame.sizes[j])}"><title>neuron ${j + 1}: cosine ${frame.best[j]} with centre ${frame.region[j] + 1}</title></circle>`;
    });
    const end = sign => at([0, 1].map(i => direction.reduce((sum, c, k) => sum + Math.max(0, sign * c) ** 2 * opening.compass[k][i], 0)));
    const arrow = direction ? `<path class="one-for-all" d="${path([end(-1), end(1)])}"/><circle class="one-for-all-end" cx="${round(end(1)[0])}" cy="${round(end(1)[1])}" r="3"/><text class="small universal-text" x="200" y="396" text-anchor="middle">purple: the direction that fools most points at once</text>` : "";
    svg.innerHTML = `<circle class="rim" cx="200" cy="182" r="145"/>${spokes.join("")}${trails.join("")}${dots.join("")}${arrow}${centres.join("")}
      <text class="small" x="6" y="18">class −</text><text class="small" x="394" y="18" text-anchor="end">class +</text>
      <text class="small" x="200" y="380" text-anchor="middle">on the rim: one centre · inside: an average · cosine ${frame.aligned.toFixed(2)}</text>`;
  }

  function masses(svg, opening, frames, index) {
    const most = Math.max(1e-12, ...frames.flatMap(f => f.masses));
    const x = scale(0, Math.max(1, frames.length - 1), 46, 388), y = scale(0, most * 1.05, 340, 30);
    const lines = opening.labels.map((label, k) => `<path class="line ${side(label)}-line" d="${path(frames.map((f, i) => [x(i), y(f.masses[k])]))}"/>`);
    const dots = opening.labels.map((label, k) => `<circle class="${side(label)}" cx="${round(x(index))}" cy="${round(y(frames[index].masses[k]))}" r="4"><title>centre ${k + 1}: ${number(frames[index].masses[k])}</title></circle>`);
    const ticks = [0, 0.25, 0.5, 0.75, 1].map(share => Math.round(share * (frames.length - 1))).filter((v, i, all) => all.indexOf(v) === i);
    svg.innerHTML = axes({ x, y, box: [46, 388, 340, 30], xLabel: "time of training", yLabel: "mass of the neurons along each centre",
      xTicks: ticks.map(i => [i, number(frames[i].time)]), yTicks: nice(most) }) +
      `<line class="now" x1="${round(x(index))}" x2="${round(x(index))}" y1="30" y2="340"/>${lines.join("")}${dots.join("")}`;
  }

  // The share of points that hold at each radius, from the radii of the points.
  function survival(rows, key, most) {
    const radii = rows.map(row => isNumber(row[key]) ? row[key] : Infinity).sort((a, b) => a - b);
    const points = [[0, rows.filter(row => row[key] !== 0).length / rows.length]];
    radii.forEach((r, i) => { if (r > 0 && r <= most) points.push([r, 1 - i / rows.length], [r, 1 - (i + 1) / rows.length]); });
    points.push([most, points[points.length - 1][1]]);
    return points;
  }
  function band(rows, x, y, most, kind) {
    const on = points => points.map(([r, share]) => [x(r), y(share)]);
    const low = on(survival(rows, "certified", most)), high = on(survival(rows, "attacked", most));
    return `<path class="${kind}-band" d="${path([...high, ...low.reverse()])}Z"/><path class="${kind}-edge" d="${path(high)}"/><path class="${kind}-edge proven" d="${path(low.reverse())}"/>`;
  }
  const shares = [[0, "0"], [0.5, "50 %"], [1, "100 %"]];

  function curve(svg, { rows, summary, ghost, total }) {
    const most = 0.9, x = scale(0, most, 46, 388), y = scale(0, 1, 340, 40);
    const frame = axes({ x, y, box: [46, 388, 340, 40], xLabel: "radius of the perturbation (centres have norm 1)", yLabel: "points that hold", xTicks: [0, 0.2, 0.4, 0.6, 0.8].map(v => [v, v]), yTicks: shares });
    const guide = (r, text) => `<line class="guide" x1="${round(x(r))}" x2="${round(x(r))}" y1="40" y2="340"/><text class="small" x="${round(x(r))}" y="33" text-anchor="middle">${text}</text>`;
    const parts = [frame];
    if (ghost?.rows.length) parts.push(band(ghost.rows, x, y, most, "ghost"));
    if (rows.length) parts.push(band(rows, x, y, most, "now"));
    if (summary) {
      parts.push(guide(summary.averaging, `1/√${Math.round(1 / summary.averaging ** 2)}`), guide(summary.limit, "√2/2"));
      parts.push(`<path class="universal" d="${path(summary.radii.map((r, i) => [x(r), y(summary.universal[i])]))}"/>`);
      parts.push(`<text class="small" x="46" y="394">band: proven to attacked</text><text class="small universal-text" x="388" y="394" text-anchor="end">dotted: one direction for all</text>`);
    } else parts.push(`<text class="small" x="46" y="394">${rows.length} of ${total} brackets closed or given up</text>`);
    svg.innerHTML = parts.join("");
  }

  // Neurons of sparse coding as squares: bright where a feature is, a haze where all the others are.
  function neurons(svg, opening, frame) {
    const cells = Draw.bytes(frame.neurons), n = opening.side, count = opening.chosen.length;
    const tile = 90, gap = 8, size = (tile - gap) / n, parts = [];
    for (let i = 0; i < count; i++) for (let j = 0; j < n * n; j++) {
      const v = cells[i * n * n + j] / 127;
      const x = 6 + (i % 4) * (tile + 8) + (j % n) * size, y = 6 + Math.floor(i / 4) * (tile + 8) + Math.floor(j / n) * size;
      parts.push(`<rect class="${v >= 0 ? "plus" : "minus"}" x="${round(x)}" y="${round(y)}" width="${round(size, 2)}" height="${round(size, 2)}" fill-opacity="${Math.min(1, Math.abs(v) * 1.6).toFixed(2)}"/>`);
    }
    for (let i = 0; i < count; i++) parts.push(`<rect class="frame" x="${6 + (i % 4) * (tile + 8)}" y="${6 + Math.floor(i / 4) * (tile + 8)}" width="${tile - gap}" height="${tile - gap}"/>`);
    svg.innerHTML = parts.join("");
  }

  function purity(svg, opening, frames, index) {
    const last = frames[frames.length - 1].step, x = scale(0, last, 46, 388), y = scale(0, 1, 340, 40);
    const until = frames[opening.clean].step;
    const line = (key, kind, factor = 1) => `<path class="line ${kind}-line" d="${path(frames.map(f => [x(f.step), y(Math.max(0, Math.min(1, factor * f[key])))]))}"/>`;
    svg.innerHTML = axes({ x, y, box: [46, 388, 340, 40], xLabel: "steps of training", yLabel: "purity (orange), haze: all other features (blue)", xTicks: [0, until, last].map(v => [v, v]), yTicks: [[0, "0"], [0.5, "0.5"], [1, "1"]] }) +
      `<rect class="stage-after" x="${round(x(until))}" y="40" width="${round(x(last) - x(until))}" height="300"/><text class="small" x="${round(x(until) + 4)}" y="54">adversarial</text>` +
      line("purity", "plus") + line("haze", "minus") + `<line class="now" x1="${round(x(frames[index].step))}" x2="${round(x(frames[index].step))}" y1="40" y2="340"/>`;
  }

  function stages(svg, rows) {
    const x = scale(0, 0.3, 46, 388), y = scale(0, 1, 340, 40);
    const line = (stage, kind, row) => {
      const own = rows.filter(r => r.stage === stage).map(r => [x(r.radius), y(r.worst)]);
      return own.length ? `<path class="line ${kind}-line" d="${path(own)}"/>${own.map(([a, b]) => `<circle class="${kind}" cx="${round(a)}" cy="${round(b)}" r="3.5"/>`).join("")}<circle class="${kind}" cx="262" cy="${57 + 15 * row}" r="4"/><text class="small" x="272" y="${60 + 15 * row}">${stage} training</text>` : "";
    };
    svg.innerHTML = axes({ x, y, box: [46, 388, 340, 40], xLabel: "radius of the perturbation", yLabel: "right under the strongest attack", xTicks: [0, 0.1, 0.2, 0.3].map(v => [v, v]), yTicks: shares }) + line("clean", "minus", 0) + line("adversarial", "plus", 1);
  }

  // Every point of a person's own data as a bar from proven to attacked, the nearest to breaking first.
  function brackets(svg, rows, total) {
    const sorted = [...rows].sort((a, b) => (a.attacked ?? Infinity) - (b.attacked ?? Infinity));
    const most = Math.max(1e-9, ...sorted.map(r => r.attacked ?? 0)) * 1.05, x = scale(0, most, 46, 388), y = scale(-0.5, Math.max(9.5, total - 0.5), 40, 340);
    const thick = Math.max(1, Math.min(14, 260 / Math.max(total, 10)));
    const bars = sorted.map((r, i) => r.attacked === 0 ? `<circle class="wrong" cx="46" cy="${round(y(i))}" r="${round(Math.min(4, thick), 1)}"><title>point ${r.point} is misclassified</title></circle>` :
      `<rect class="proven-bar" x="46" y="${round(y(i) - thick / 2)}" width="${round(x(r.certified) - 46)}" height="${round(thick * 0.8)}"/><rect class="open-bar" x="${round(x(r.certified))}" y="${round(y(i) - thick / 2)}" width="${round(Math.max(0.8, x(r.attacked ?? most) - x(r.certified)))}" height="${round(thick * 0.8)}"><title>point ${r.point}: between ${number(r.certified)} and ${number(r.attacked)}</title></rect>`);
    const ticks = nice(most);
    svg.innerHTML = axes({ x, y, box: [46, 388, 340, 40], xLabel: "radius: proven (solid), not known (light)", yLabel: `${rows.length} of ${total} points`, xTicks: ticks, yTicks: [] }) + bars.join("");
  }
  function ownCurve(svg, rows) {
    const most = Math.max(1e-9, ...rows.map(r => r.attacked ?? 0)) * 1.05, x = scale(0, most, 46, 388), y = scale(0, 1, 340, 40);
    svg.innerHTML = axes({ x, y, box: [46, 388, 340, 40], xLabel: "radius of the perturbation", yLabel: "points that hold", xTicks: nice(most), yTicks: shares }) + (rows.length ? band(rows, x, y, most, "now") : "");
  }
  // A point, the change that breaks it, and both together, as square pictures.
  function broken(row, { x, delta }, side) {
    const most = Math.max(1e-9, ...x.map(Math.abs)), change = Math.max(1e-9, ...delta.map(Math.abs));
    const tile = (values, left, of) => values.map((v, i) => {
      const [kind, share] = of(v);
      return `<rect class="${kind}" x="${round(left + 60 * (i % side) / side, 2)}" y="${round(60 * Math.floor(i / side) / side, 2)}" width="${round(60.5 / side, 2)}" height="${round(60.5 / side, 2)}" fill-opacity="${Math.min(1, share).toFixed(3)}"/>`;
    }).join("");
    const grey = v => ["pixel", Math.abs(v) / most], signed = v => [v >= 0 ? "plus" : "minus", Math.abs(v) / change];
    return `<article class="card"><h3>point ${row.point} <small>${escape(row.label)} → ${escape(row.rival)} at ${number(row.attacked)}</small></h3><svg viewBox="0 0 190 60" role="img" aria-label="the point, the change, and both together">${tile(x, 0, grey)}${tile(delta, 65, signed)}${tile(x.map((v, i) => v + delta[i]), 130, grey)}</svg></article>`;
  }
  function card(c) {
    const bar = (v, i, words) => `<div class="bar"><span>${escape(words[i])}</span><i class="${v >= 0 ? "plus" : "minus"}-fill" style="width:${(Math.abs(v) * 50).toFixed(1)}%;${v >= 0 ? "left:50%" : "right:50%"}"></i></div>`;
    const strongest = c.cosines.map((v, i) => [v, i]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, 10).sort((a, b) => a[1] - b[1]);
    const percent = v => `${(100 * v).toFixed(0)} %`;
    return `<article class="card"><h3>${c.size > 1 ? `${c.size} neurons alike` : `neuron ${c.neuron}`} <small>for ${escape(c.votes_for)}, ${percent(c.margin_share)} of the margin</small></h3>
      <h4>cosine with the mean of each class or cluster</h4>${strongest.map(([v, i]) => bar(v, i, c.names)).join("")}
      <p>purity ${c.purity.toFixed(2)} · fires on ${percent(c.active_share)} of the points, most on ${c.exciting.slice(0, 3).join(", ") || "none"}</p></article>`;
  }
  return { compass, masses, curve, neurons, purity, stages, brackets, ownCurve, broken, card };
})();
