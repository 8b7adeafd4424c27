// What is wrong with the names in a picture, in words. A curve has a name on it or a key, and the name covers no curve, nor
// does that of a point unless the picture may be crowded; the numbers of an axis stand apart. The name of bars is there where
// they are and their lane does not name them; it stands in one of them, or clear of all, and its line ends at one of them.
(figure, crowded) => {
  const area = figure.querySelector(".cl-area"), wrong = new Set();
  if (!area) return [];
  const frame = area.getBoundingClientRect(), seen = (name) => name.checkVisibility({ visibilityProperty: true });
  const shrunk = ({ left, right, top, bottom }, by) => ({ left: left + by, right: right - by, top: top + by, bottom: bottom - by });
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const names = [...area.querySelectorAll(".cl-along, .cl-kind")].filter(seen).map((name) => {
    const box = name.getBoundingClientRect(), up = Number.parseFloat(getComputedStyle(name).paddingBottom);
    return { name, told: name.textContent, foot: box.bottom, box: shrunk({ left: box.left, right: box.right, top: box.top, bottom: box.bottom - up }, 1) };
  });
  names.forEach((a, i) => names.slice(i + 1).forEach((b) => { if (meet(a.box, b.box)) wrong.add(`${a.told} meets ${b.told}`); }));
  for (const { told, box } of names) {
    if (box.left < frame.left - 3 || box.right > frame.right + 3) wrong.add(`${told} leaves the picture`);
    for (const rule of area.querySelectorAll(".cl-top:not([hidden])")) if (meet(box, shrunk(rule.getBoundingClientRect(), 2))) wrong.add(`${told} meets ${rule.textContent}`);
    for (const rule of area.querySelectorAll(".cl-rule")) {
      const x = frame.left + Number(/[\d.]+/.exec(rule.getAttribute("d"))) * frame.width / 1000;
      if (rule.getAttribute("d") && box.bottom > frame.top && box.left < x && box.right > x) wrong.add(`${told} is crossed by a rule`);
    }
  }
  const points = [...area.querySelectorAll(".cl-at")].filter(seen).map((name) => ({ told: name.textContent, box: shrunk(name.getBoundingClientRect(), 2) }));
  for (const rule of area.querySelectorAll(".cl-rule")) {
    const x = frame.left + Number(/[\d.]+/.exec(rule.getAttribute("d"))) * frame.width / 1000;
    for (const { told, box } of crowded ? [] : points) if (rule.getAttribute("d") && box.left < x && box.right > x) wrong.add(`${told} is crossed by a rule`);
  }
  for (const { told, box } of points) if (box.left < frame.left - 3 || box.right > frame.right + 3) wrong.add(`${told} leaves the picture`);
  const ticks = [...figure.querySelectorAll(".cl-below span")].filter(seen).map((tick) => [tick.textContent, tick.getBoundingClientRect()]);
  ticks.forEach(([told, box], i) => ticks.slice(i + 1).forEach(([other, its]) => { if (meet(box, its)) wrong.add(`${told} meets ${other}`); }));
  area.querySelectorAll(".cl-curve").forEach((path, i) => {
    if (path.getAttribute("d") && seen(path) && ![...figure.querySelectorAll(`[data-curve="${i}"]`)].some(seen)) wrong.add(`curve ${i} has no name`);
    const long = path.getAttribute("d") ? path.getTotalLength() : -1; // a curve may be nowhere
    for (let k = 0; long > 0 && k <= 400; k++) {
      const { x, y } = path.getPointAtLength(long * k / 400);
      const [px, py] = [frame.left + x * frame.width / 1000, frame.top + y * frame.height / 1000];
      for (const { told, box } of [...names, ...(crowded ? [] : points)]) if (px > box.left + 1 && px < box.right - 1 && py > box.top + 1 && py < box.bottom - 1) wrong.add(`${told} covers curve ${i}`);
    }
  });
  const kinds = [...area.querySelectorAll(".cl-span")].map((path) => [...path.getAttribute("d").matchAll(/M([\d.-]+) ([\d.-]+)H([\d.-]+)v([\d.-]+)/g)].map((found) => {
    const [a, top, b, tall] = found.slice(1).map(Number), [left, right] = [a, b].map((at) => frame.left + Math.min(Math.max(at, 0), 1000) * frame.width / 1000);
    return { left, right, top: frame.top + top * frame.height / 1000, bottom: frame.top + (top + tall) * frame.height / 1000 };
  }).filter(({ left, right }) => right - left > 0.6));
  kinds.forEach((bars, i) => {
    const own = names.filter(({ name }) => name.dataset.kind === String(i)), answer = area.querySelectorAll(".cl-span")[i];
    if (!bars.length || !seen(answer) || figure.querySelector(`.cl-left [data-kind="${i}"]`)) return;
    if (own.length !== 1) { wrong.add(`${area.parentElement.parentElement.querySelector("figcaption").textContent}: kind ${i} has ${own.length} names`); return; }
    const [{ name, told, box, foot }] = own, way = ["in", "start", "end", "side", "key"].find((one) => name.classList.contains("cl-" + one));
    const all = kinds.flatMap((bars, k) => bars.map((bar) => [bar, k]));
    if (way === "in") {
      if (!bars.some((bar) => bar.left <= box.left && bar.right >= box.right && bar.top <= box.top && bar.bottom >= box.bottom)) wrong.add(`${told} is not in its bar`);
    } else if (all.some(([bar]) => meet(box, bar))) wrong.add(`${told} covers a bar`);
    if (way === "start" || way === "end") {
      const x = way === "start" ? box.left : box.right;
      if (!bars.some((bar) => x > bar.left - 2 && x < bar.right + 2 && Math.abs(bar.top - foot) < 2)) wrong.add(`the line of ${told} does not lead to its bar`);
    }
  });
  return [...wrong];
}
