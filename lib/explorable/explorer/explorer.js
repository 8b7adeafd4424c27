// The browser half of explorable.Explorer. It computes no law: it looks pictures up in the table, and between two stops it
// interpolates places and the numbers of texts.
const NONE = 65535, STEPS = 65534;

// A number as clusterlab.units.fmt writes it. A bare one is written at the rung of the number before it, without a unit.
// Digits are rounded as Python rounds them: from the exact value, and to the even one where it lies in the middle.
const plainly = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 21 });
function figures(value, digits) {
  const [mantissa, power] = value.toExponential(60).split("e"), written = mantissa.replace(".", "");
  const half = /^50*$/.test(written.slice(digits)) && "02468".includes(written[digits - 1]);
  return plainly.format(half ? Number(`${written.slice(0, digits)}e${power - digits + 1}`) : Number(value.toPrecision(digits)));
}
const rung = (value, ladder, digits) => {
  const magnitude = Math.abs(Number(value.toPrecision(digits)));
  return ladder.filter(([limit]) => magnitude >= limit * (1 - 1e-12)).pop();
};
function write(value, { unit, digits, whole, space, bare, ladder }, lead) {
  value ||= 0;
  const [, size, name] = (bare && lead) || rung(value, ladder, digits);
  const number = whole ? Math.round(value).toLocaleString("en-US") : figures(Math.abs(value) / size, digits);
  const sign = !whole && value < 0 && number !== "0" ? "-" : "", told = value ? name : unit;
  if (bare) return sign + number;
  if (told[0] === "$") return sign + "$" + number + told.slice(1);
  return sign + number + (told === "" || told === "%" ? "" : space || " ") + told;
}

// A y value at three significant digits (or a thousandth of a linear axis).
function format(value, axis) {
  const step = (axis.high - axis.low) / 1000;
  return write(axis.log ? value : Math.round(value / step) * step, axis);
}

// A stored table: numbers that phrases tell, then records, scenes, the template of each phrase, curves, and places.
function opened(stored) {
  const view = stored.codes, bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  const sizes = stored.sizes, Codes = sizes[3] <= NONE ? Uint16Array : Uint32Array;
  let from = 0;
  const part = (kind, i) => {
    const values = new kind(bytes, from, sizes[i]);
    from += values.byteLength;
    return values;
  };
  const told = part(Float64Array, 0), table = { ...stored, records: part(Codes, 1), scenes: part(Codes, 2), of: part(Uint16Array, 3), pool: part(Uint16Array, 4) };
  const places = part(Int16Array, 5), numbers = table.numbers = new Float64Array(told.length + places.length);
  table.forms = stored.forms.map((form) => form && { unit: form[0], digits: form[1], whole: form[2], space: form[3], bare: form[4], ladder: stored.ladders[form[0]] });
  table.names = stored.templates.map(([words]) => words.join("\0"));
  table.first = new Uint32Array(table.of.length);
  let tolds = 0, all = 0;
  table.of.forEach((template, i) => {
    table.first[i] = all;
    for (const form of stored.templates[template][1]) numbers[all] = form ? told[tolds++] : places[all - tolds] / 10, all++;
  });
  return table;
}

// A mix is what is shown: rows of tables, each with its weight, the nearest first.
const code = (mix, column) => blend(mix, ({ table, row }) => table.records[row * table.width + column]);
function blend(mix, of) {
  if (mix.length === 1 || of(mix[0]) === NONE) return of(mix[0]);
  let sum = 0, weight = 0;
  for (const one of mix) {
    const value = of(one);
    if (value !== NONE) { sum += one.weight * value; weight += one.weight; }
  }
  return sum / weight;
}

// Control by control, each by difference or by ratio as the number goes with it: a bit for each control.
function byAxes(numbered, axes, ratios) {
  let values = [];
  for (const [nth, value] of numbered) values[nth] = value;
  for (const { number, share } of axes.toReversed()) {
    const by = (ratios >> number) & 1;
    values = values.filter((_, k) => k % 2 === 0).map((a, k) => {
      const b = values[2 * k + 1];
      return by && a > 0 && b > 0 ? a ** (1 - share) * b ** share : a + share * (b - a);
    });
  }
  return values[0];
}

// A phrase: the words of the nearest, and between them the numbers of all that have the same words.
function written(mix, of) {
  const { table } = mix[0], id = of(mix[0]), template = table.of[id], [words, forms, ratios] = table.templates[template];
  if (!forms.length) return [words, []];
  const alike = mix.length === 1 ? mix : mix.filter((one) => one.table.names[one.table.of[of(one)]] === table.names[template]);
  const weight = alike.reduce((sum, one) => sum + one.weight, 0), whole = alike.length === mix.length && mix.axes;
  let lead = null;
  const numbers = forms.map((form, i) => {
    const values = alike.map((one) => one.table.numbers[one.table.first[of(one)] + i]);
    let value = values[0];
    if (values.some((v) => v !== value)) {
      if (whole) value = byAxes(alike.map((one, k) => [one.nth, values[k]]), mix.axes, ratios[i]);
      else value = values.reduce((sum, v, k) => sum + alike[k].weight * v, 0) / weight;
    }
    if (!form) return Math.round(10 * value) / 10;
    const how = table.forms[form], said = write(value, how, lead);
    if (!how.bare) lead = rung(value, how.ladder, how.digits);
    return said;
  });
  return [words, numbers];
}
const joined = (words, numbers) => words.reduce((text, word, i) => text + numbers[i - 1] + word);
const phrase = (mix, of) => joined(...written(mix, of));

// The attributes of a drawn template's places: of which element, and the words between. None where a number is told too.
const outlets = new Map();
function outletsOf(name) {
  if (outlets.has(name)) return outlets.get(name);
  const found = [];
  let nth = -1;
  for (const [, tag, key, value] of name.matchAll(/<([a-z]+)|([\w-]+)="([^"]*)"/g)) {
    if (tag) nth++;
    else if (value.includes("\0")) found.push({ nth, key, between: value.split("\0") });
  }
  const whole = found.flatMap(({ between }) => between.slice(1)).length === name.split("\0").length - 1;
  outlets.set(name, whole && found);
  return outlets.get(name);
}

function render({ model, el }) {
  const spec = model.get("_spec"), { x, y, grid, controls } = spec;
  if (!el.querySelector(".cl-explorer")) el.innerHTML = model.get("_html");
  const figure = el.querySelector(".cl-explorer"), area = figure.querySelector(".cl-area");
  const all = (selector) => [...figure.querySelectorAll(selector)];
  const curves = all(".cl-curve"), dots = all(".cl-dot"), rules = all(".cl-rule"), boxes = all(".cl-span"), bands = all(".cl-between");
  const scatter = spec.marks.map((_, i) => all(`.cl-area .cl-mark.cl-s${curves.length + i}`));
  const onCurves = curves.map((_, i) => figure.querySelector(`.cl-along[data-curve="${i}"]`));
  onCurves.forEach((tag, i) => { if (tag) tag.stands = spec.names[i]; });
  const ruleTags = all(".cl-top"), dotTags = all(".cl-at"), readouts = all(".cl-readouts dd");
  const id = "cl-" + Math.random().toString(36).slice(2);
  const scene = figure.querySelector(".cl-scene"), calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

  // Positions in thousandths of an axis, and the values there.
  const warped = (axis, code) => axis.first + axis.span * code / STEPS;
  const place = (axis, code) => 1000 * (warped(axis, code) - axis.low) / (axis.high - axis.low);
  const value = (axis, code) => axis.log ? 10 ** warped(axis, code) : warped(axis, code);
  const inside = (...places) => places.every((p) => p >= 0 && p <= 1000);
  const at = (n) => n.toFixed(1);

  // A slider goes by its own measure; between two stops there is more to see, or there is not.
  const smooth = (c) => !c.labels, span = (c) => [c.values[0], c.values.at(-1)];
  const along = (c, v) => c.log ? Math.log(v) : v, back = (c, u) => c.log ? Math.exp(u) : u;
  const share = (c, v) => { const [low, high] = span(c).map((end) => along(c, end)); return (along(c, v) - low) / (high - low); };
  const from = (c, part) => { const [low, high] = span(c).map((end) => along(c, end)); return tidy(c, back(c, low + part * (high - low))); };
  const within = (c, v) => Math.min(Math.max(v, span(c)[0]), span(c)[1]);
  // What a hand chooses is a round number, of three digits or a two-hundredth of the slider, or a stop where one is near.
  function tidy(c, v) {
    const near = c.values.find((stop) => Math.abs(share(c, stop) - share(c, v)) < 0.001);
    if (near !== undefined) return near;
    if (c.whole) return within(c, Math.round(v));
    const [, size] = rung(v, c.ladder, 3), [low, high] = span(c), part = (high - low) / size / 200;
    const power = 10 ** Math.floor(Math.log10(part)), step = [1, 2, 5, 10].find((m) => m * power >= part * 0.999) * power;
    return within(c, (c.log ? Number((v / size).toPrecision(3)) : Number((Math.round(v / size / step) * step).toPrecision(12))) * size);
  }
  const now = (c) => {
    const v = model.get(c.name);
    if (smooth(c) || c.values.includes(v)) return v;
    // A linked widget may hold what is no stop: show the nearest.
    if (typeof v === "number") return c.values.reduce((best, stop) => Math.abs(stop - v) < Math.abs(best - v) ? stop : best);
    return c.values[c.start];
  };

  // Where a value stands among the stops: one of them, or two and the share of the second.
  function between(c, v) {
    const i = c.values.indexOf(v);
    if (i >= 0) return [[i, 1]];
    const above = c.values.findIndex((stop) => stop > v), [a, b, u] = [c.values[above - 1], c.values[above], v].map((w) => along(c, w)), t = (u - a) / (b - a);
    return [[above - 1, 1 - t], [above, t]];
  }
  function mixed(values) {
    let mix = [{ row: 0, weight: 1 }];
    const axes = [];
    controls.forEach((c, i) => {
      const stops = between(c, values[i]);
      if (stops.length > 1) axes.push({ number: i, share: stops[1][1] });
      mix = mix.flatMap(({ row, weight }) => stops.map(([j, w]) => ({ row: row * c.values.length + j, weight: weight * w })));
    });
    mix = mix.map((one, nth) => ({ table, nth, ...one })).sort((a, b) => b.weight - a.weight);
    mix.axes = axes;
    return mix;
  }
  function chosen() {
    const values = controls.map(now), exact = model.get("_exact");
    if (exact?.values && controls.every((c, i) => exact.values[c.name] === values[i])) return [{ table: exact.opened ??= opened(exact), row: 0, weight: 1 }];
    return mixed(values);
  }

  const heights = (mix, i) => grid.map((_, j) => blend(mix, (one) => one.table.pool[one.table.records[one.row * one.table.width + i] * grid.length + j]));
  function line(ups) {
    let d = "", pen = "M";
    for (let j = 0; j < grid.length; j++) {
      const height = ups[j];
      if (height === NONE) pen = "M";
      else { d += pen + at(place(x, grid[j])) + " " + at(1000 - place(y, height)); pen = "L"; }
    }
    return d;
  }

  const outline = (low, high) => low && high && `M${[...low.slice(1).split(/[ML]/), ...high.slice(1).split(/[ML]/).reverse()].join("L")}Z`;

  // A stroke so short shows as its cap; nothing where the place is not there or out of the picture.
  function spot(cx, cy) {
    const px = place(x, cx), py = place(y, cy);
    return cx !== NONE && cy !== NONE && inside(px, py) ? `M${at(px)} ${at(1000 - py)}h.1` : "";
  }

  // The scene of a row, from its words on: phrases of its pool.
  const scenes = ({ table, row }) => {
    const number = table.records[(row + 1) * table.width - 1], start = number ? table.ends[number - 1] : 0;
    return table.scenes.subarray(start, table.ends[number]);
  };
  const like = (mix) => {
    for (const one of mix) one.scene ??= scenes(one);
    const size = mix[0].scene.length, same = mix.filter((one) => one.scene.length === size);
    return same.length === mix.length ? mix : same;
  };
  const drawn = (mix, i) => phrase(mix, (one) => one.scene[i]);

  // Of each part of the drawing as it stands: its phrase, where it is one of the table's, its template and numbers.
  let standing = null;
  function part(mix, i) {
    const { table: from, scene } = mix[0], own = from === table && mix.every((one) => one.table === table && one.scene[i] === scene[i]);
    if (own && standing?.[i]?.id === scene[i]) return standing[i];
    const [words, numbers] = written(mix, (one) => one.scene[i]);
    return { id: own ? scene[i] : null, name: from.names[from.of[scene[i]]], words, numbers };
  }
  const every = (mix) => [...mix[0].scene.keys()].map((i) => i && part(mix, i));
  // Only what differs is drawn anew: of one template, its places. A part with a key slides from where it was.
  function paint(mix, slides) {
    standing ??= every(like(mixed(controls.map((c) => c.values[c.start]))));
    const keyed = () => [...scene.querySelectorAll("[data-key]")];
    const was = Object.fromEntries(keyed().map((part) => [part.dataset.key, part.style.transform]));
    const links = () => [...scene.querySelectorAll("a")], held = links().indexOf(document.activeElement);
    const parts = [...scene.children], anew = [], now = every(mix);
    for (let i = 1; i < now.length; i++) {
      const old = standing[i], { name, words, numbers } = now[i], same = old?.name === name, moved = (number, n) => number !== old.numbers[n];
      if (old === now[i] || (same && !numbers.some(moved))) continue;
      const places = same && outletsOf(name);
      if (!places) { anew.push([parts[i - 1], joined(words, numbers)]); continue; }
      const nodes = [parts[i - 1], ...parts[i - 1].querySelectorAll("*")];
      let k = 0;
      for (const { nth, key, between } of places) {
        const from = k;
        k += between.length - 1;
        if (numbers.slice(from, k).some((number, n) => moved(number, from + n))) nodes[nth].setAttribute(key, joined(between, numbers.slice(from, k)));
      }
    }
    standing = now;
    parts.slice(now.length - 1).forEach((part) => part.remove());
    if (anew.length) {
      const sheet = scene.cloneNode();
      sheet.innerHTML = anew.map(([, markup]) => markup).join("");
      [...sheet.children].forEach((made, k) => { if (anew[k][0]) anew[k][0].replaceWith(made); else scene.append(made); });
    }
    links()[held]?.focus({ preventScroll: true });
    scene.setAttribute("aria-label", drawn(mix, 0));
    if (calm || !slides) return;
    for (const part of keyed()) {
      const start = was[part.dataset.key], to = part.style.transform;
      if (start && start !== to) part.animate({ transform: [start, to] }, { duration: 200, easing: "ease-in-out" });
    }
  }

  const hidden = (part) => part.classList.contains("cl-answer") && figure.classList.contains("cl-ask");
  let table = null, shown = null, mix = [], marks = [], frame = 0, held = false;
  const key = (mixture) => mixture.map(({ row, weight }) => row + ":" + weight).join() + (mixture[0].table === table ? "" : JSON.stringify(mixture[0].table.values));
  function draw() {
    sync();
    if (!table) return model.send({ wants: "table" }); // it is on its way, and will be drawn
    const goal = chosen(), named = key(goal), start = mix;
    if (named === shown) return;
    const first = shown === null;
    shown = named;
    cancelAnimationFrame(frame);
    const alike = !scene || first || (!scene.querySelector("[data-key]") && like([...goal, ...start]).length === goal.length + start.length);
    if (first || held || calm || !alike) return show(goal, !first && !held);
    const begun = performance.now();
    // Pictures of one structure move from state to state. What is told is told at once.
    const move = (time) => {
      const t = Math.min(Math.max((time - begun) / 200, 0), 1), ease = t * t * (3 - 2 * t);
      const part = (mixture, weight) => mixture.map((one) => ({ ...one, weight: one.weight * weight }));
      if (t < 1) {
        show([...part(goal, ease), ...part(start, 1 - ease)].sort((a, b) => b.weight - a.weight), false, goal);
        frame = requestAnimationFrame(move);
      } else show(goal, false);
    };
    move(begun);
  }
  function show(mixture, slides, told = mixture) {
    mix = mixture;
    let next = 0;
    const ups = curves.map((_, i) => heights(mix, i)), lines = ups.map(line);
    next += curves.length;
    curves.forEach((path, i) => path.setAttribute("d", lines[i]));
    bands.forEach((path, i) => path.setAttribute("d", outline(...spec.bands[i].map((n) => lines[n]))));
    const words = (from, column) => phrase(from, (one) => one.table.records[one.row * one.table.width + column]);
    readouts.forEach((dd) => {
      const said = words(told, next++), asked = hidden(dd.parentElement), text = asked ? "?" : said;
      if (dd.textContent !== text) dd.textContent = text;
      if (asked) dd.dataset.told = said; else delete dd.dataset.told; // paper cannot be asked: it is told
    });
    dots.forEach((path, i) => {
      const cx = code(mix, next++), cy = code(mix, next++), d = spot(cx, cy);
      path.setAttribute("d", d);
      move(dotTags[i], place(x, cx), place(y, cy), d !== "");
    });
    rules.forEach((path, i) => {
      const across = code(mix, next++), px = place(x, across), there = across !== NONE && inside(px);
      path.setAttribute("d", there ? `M${at(px)} 0V1000` : "");
      move(ruleTags[i], px, 1000, there);
      ruleTags[i].px = there ? px : NaN;
    });
    for (const tag of ruleTags) { // see _labels.py
      const d = ruleTags.map((one) => one.px - tag.px).find((d) => d && d * d < 250 ** 2);
      if (d) tag.classList.toggle("cl-left-of", tag.px > (d > 0 ? 250 : 750));
    }
    const chosenMark = marks[cursor]?.id, met = {};
    marks = [];
    spec.marks.forEach(([, count], i) => {
      let caps = "";
      for (let k = 0; k < count; k++, next += 3) {
        const cx = code(mix, next), cy = code(mix, next + 1), d = spot(cx, cy);
        if (d && !hidden(scatter[i][0])) {
          const name = words(mix, next + 2);
          met[name] = (met[name] ?? 0) + 1; // of marks that share a name, the first stays the first
          marks.push({ px: place(x, cx), py: place(y, cy), name, id: name + " " + met[name] });
        }
        caps += d;
      }
      for (const path of scatter[i]) path.setAttribute("d", caps);
    });
    marks.sort((a, b) => a.px - b.px || a.py - b.py);
    nameCurves(ups);
    if (scatter.length) area.setAttribute("aria-valuemax", Math.max(marks.length - 1, 0));
    all(".cl-in:not(.cl-kind)").forEach((tag) => tag.remove());
    let breaks = "";
    bars = spec.spans.map(() => []);
    spec.spans.forEach(([, count], i) => {
      const height = 1000 / spec.lanes.length;
      let d = "";
      for (let k = 0; k < count; k++, next += 4) {
        const lane = mix[0].table.records[mix[0].row * mix[0].table.width + next];
        if (lane === NONE) continue;
        const same = mix.filter((one) => one.table.records[one.row * one.table.width + next] === lane);
        const a = place(x, code(same, next + 1)), b = place(x, code(same, next + 2)), middle = (lane + 0.5) * height, text = words(mix, next + 3);
        d += `M${at(a)} ${at(middle - 0.3 * height)}H${at(b)}v${at(0.6 * height)}H${at(a)}z`;
        bars[i].push([lane, a, b, text.length]);
        if (a < 985 && b > 1000.5) breaks += `M985 ${at(middle - 0.3 * height)}` + `l8 ${at(0.15 * height)}l-8 ${at(0.15 * height)}`.repeat(2);
        if (text) area.append(make("span", { class: boxes[i].getAttribute("class").replace("cl-span", "cl-tag cl-in"), style: `left:${(a + b) / 20}%;top:${middle / 10}%` }, text));
      }
      boxes[i].setAttribute("d", d);
    });
    figure.querySelector(".cl-break")?.setAttribute("d", breaks);
    nameBars();
    if (scene) paint(like(mix), slides);
    if (cursor !== null) point(scatter.length ? marks.findIndex((mark) => mark.id === chosenMark) : cursor);
    grips.forEach(({ settle }) => settle());
  }
  const meets = ([a, b, c, d], [e, f, g, h]) => a < f && e < b && c < h && g < d;
  // The label of a point stands where it covers least.
  const SIDES = [1, 2.4, 5].flatMap((far) => [[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, 1], [1, -1], [-1, -1]].map((side) => [...side, far]));
  const gaps = ([dx, dy, far]) => [far * (dy ? 0.45 : 0.6), far * (dx ? 0.3 : 0.75)];
  const crossed = (lines, xs, [left, right, low, high]) => lines.reduce((sum, line) => {
    for (let j = 1; j < xs.length; j++) {
      const [a, b, u, v] = [xs[j - 1], xs[j], line[j - 1], line[j]];
      if (b < left || a > right || Number.isNaN(u + v)) continue;
      const ends = [left, right].map((end) => u + (v - u) * (Math.min(Math.max(end, a), b) - a) / (b - a || 1));
      if (Math.max(...ends) > low && Math.min(...ends) < high) sum++;
    }
    return sum;
  }, 0);
  function namePoints(lines, xs, across, up, taken) {
    dots.forEach((path, i) => {
      const [px, py] = path.getAttribute("d").match(/[\d.]+/g)?.map(Number) ?? [], tag = dotTags[i];
      if (px === undefined) return;
      const [wide, high, em] = [tag.offsetWidth, tag.offsetHeight, parseFloat(getComputedStyle(tag).fontSize)], y = 1000 - py;
      const box = (side) => {
        const [dx, dy] = side, [gx, gy] = gaps(side).map((gap) => em * gap);
        const [left, low] = [dx ? dx > 0 ? gx : -wide - gx : -wide / 2, dy ? dy > 0 ? gy : -high - gy : -high / 2];
        return [px + across * left, px + across * (left + wide), y + up * low, y + up * (low + high)];
      };
      const cost = (side) => {
        const own = box(side), out = own[0] < 0 || own[1] > 1000 || own[2] < 0 || own[3] > 1000;
        return crossed(lines, xs, own) + side[2] / 10 + 1000 * out + 100 * taken.filter((other) => meets(own, other)).length;
      };
      const order = px > 500 ? [SIDES[1], SIDES[0], ...SIDES.slice(2)] : SIDES, costs = order.map(cost), least = Math.min(...costs);
      const kept = order.findIndex((side) => side === tag.side), [dx, dy] = tag.side = costs[kept] === least ? tag.side : order[costs.indexOf(least)];
      const [gx, gy] = gaps(tag.side).map((gap) => `${gap.toFixed(2)}em`);
      tag.style.transform = `translate(${dx ? dx > 0 ? gx : `calc(-100% - ${gx})` : "-50%"}, ${dy ? dy > 0 ? `-${gy}` : `calc(100% + ${gy})` : "50%"})`;
      taken.push(box(tag.side), [px - 9 * across, px + 9 * across, y - 9 * up, y + 9 * up]);
    });
  }
  // A name stands over or under its curve while there is room: _labels.py.
  let named = null;
  function nameCurves(ups) {
    named = ups;
    const tags = onCurves.filter((tag, i) => { if (tag) tag.hidden = false; return tag?.offsetParent; });
    if (!(tags.length || dots.length) || !area.clientWidth) return;
    const xs = grid.map((g) => place(x, g)), lines = ups.map((up) => up.map((h) => h === NONE ? NaN : place(y, h)));
    const across = 1000 / area.clientWidth, up = 1000 / area.clientHeight, gap = 4 * up, taken = [];
    ruleTags.forEach((label, i) => {
      const { px } = label, w = across * (label.offsetWidth + 6), left = label.classList.contains("cl-left-of") ? w : 0;
      if (px >= 0) taken.push([px - left, px + w - left, 1000 - up * label.offsetHeight * (1 + i), 1000], [px - 2 * across, px + 2 * across, 0, 1000]);
    });
    namePoints(lines, xs, across, up, taken);
    for (const { px, py } of marks) taken.push([px - 4 * across, px + 4 * across, py - gap, py + gap]);
    for (const tag of tags) {
      const i = Number(tag.dataset.curve), half = across * ((tag.wide ??= tag.offsetWidth) / 2 + 3), h = 17 * up, own = lines[i];
      const stand = (at, above) => {
        const left = xs[at] - half, right = xs[at] + half, first = xs.findIndex((g) => g >= left), last = xs.findLastIndex((g) => g <= right);
        const ends = (line) => [[first, left], [last + 1, right]].map(([j, g]) => line[j - 1] + (line[j] - line[j - 1]) * (g - xs[j - 1]) / (xs[j] - xs[j - 1]));
        const along = lines.map((line) => [...line.slice(first, last + 1), ...ends(line)].filter((v) => !Number.isNaN(v)));
        const edge = Math[above ? "max" : "min"](...along[i]), low = above ? edge : edge - gap - h, high = low + gap + h, box = [left, right, low, high];
        const out = low < 0 || high > 1000 || left < 0 || right > 1000 || taken.some((other) => meets(box, other));
        const room = Math.min(200, ...along.map((line, k) => k === i || !line.length ? 200 : Math.max(Math.min(...line) - high, low - Math.max(...line))));
        return { at, above, edge, box, room: out ? -1 : room };
      };
      const there = (at) => inside(own[at]);
      let found = there(tag.stands[0]) ? stand(...tag.stands) : { room: -1 };
      for (let k = 0, free = found.room > gap; !free && k < 24; k++) {
        const u = half + k * (1000 - 2 * half) / 23, at = xs.reduce((best, g, j) => Math.abs(g - u) < Math.abs(xs[best] - u) ? j : best, 0);
        for (const above of there(at) ? [true, false] : []) {
          const one = stand(at, above);
          if (one.room > Math.max(found.room, gap)) found = one;
        }
      }
      tag.hidden = found.room <= 0;
      keys[i].forEach((key) => key.classList.toggle("cl-needed", tag.hidden));
      if (tag.hidden) continue;
      tag.stands = [found.at, found.above];
      taken.push(found.box);
      tag.classList.toggle("cl-under", !found.above);
      tag.style.left = xs[found.at] / 10 + "%";
      tag.style.bottom = found.edge / 10 + "%";
    }
  }
  // A name of bars stands in the longest that has room, else over one, behind a line that leads to it: see _bars.py.
  const kinds = spec.spans.map((_, i) => all(`.cl-kind[data-kind="${i}"]`));
  let bars = [], roof = null;
  function nameBars() {
    if (!kinds.length || !area.clientWidth) return;
    const lanes = spec.lanes.length, row = 1.107 * parseFloat(getComputedStyle(figure).fontSize), wide = area.clientWidth, pitch = area.clientHeight / lanes, top = 0.2 * pitch;
    const taken = [], rest = [];
    let over = 0, most = 0;
    for (const tag of ruleTags) {
      if (tag.hidden) continue;
      const x = tag.px * wide / 1000, long = tag.offsetWidth + 4, left = tag.classList.contains("cl-left-of") ? long : 0;
      taken.push([x - 2, x + 2, 0, 1e4], [x - left, x + long - left, -row, 0]);
      over = row + top;
    }
    function stand(tag, way, lane, x, up = 0) {
      for (const one of ["in", "start", "end", "side", "key"]) tag.classList.toggle("cl-" + one, one === way);
      tag.style.left = 100 * x / wide + "%";
      tag.style.bottom = 100 - 100 * (lane + (way === "in" || way === "side" ? 0.5 : 0.2)) / lanes + "%";
      tag.style.setProperty("--cl-up", up + "px");
    }
    const first = (tag, tries) => tries.some(([way, lane, x, up = 0]) => {
      const long = tag.room + (way === "side" || way === "key" ? 14 : 0), left = x - long * ({ in: 0.5, end: 1, key: 1 }[way] ?? 0);
      const low = top + lane * pitch - up + (way === "in" || way === "side" ? (0.6 * pitch + row) / 2 : 0), own = [[left, left + long, low - row, low]];
      if (way === "start" || way === "end") own.push([x - 1, x + 1, low, low + up]);
      if (left < 0 || left + long > wide || own.some((a) => taken.some((b) => meets(a, b)))) return false;
      taken.push(...own);
      stand(tag, way, lane, x, up);
      if (!lane && own[0][2] < 0) most = Math.max(most, -own[0][2]);
      return true;
    });
    const clipped = bars.map((of) => of.map(([lane, a, b, letters]) => [lane, Math.max(a, 0) * wide / 1000, Math.min(b, 1000) * wide / 1000, letters]).filter(([, a, b]) => b - a > 0.5).sort((p, q) => q[2] - q[1] - p[2] + p[1]));
    const end = (lane) => Math.max(...clipped.flat().filter((bar) => bar[0] === lane).map((bar) => bar[2]));
    kinds.forEach(([tag, tight], i) => {
      if (!tag) return; // its lane names it
      const of = clipped[i];
      tight?.remove();
      tag.classList.remove("cl-roomy");
      tag.hidden = false;
      if (!tag.room) { stand(tag, "start", 0, 0); tag.room = tag.offsetWidth + 6; }
      const room = tag.room, inside = of.flatMap(([lane, a, b, letters]) => (letters ? (b - a - 7 * letters - 8) / 2 : b - a) < room ? [] : [...(letters ? [] : [(a + b) / 2]), a + room / 2, b - room / 2].map((x) => ["in", lane, x]));
      tag.hidden = !of.length;
      if (of.length && !first(tag, inside)) rest.push({ tag, left: of[0][1], longest: of.filter(([lane], k) => of.findIndex((one) => one[0] === lane) === k), late: of[0][1] + room > wide });
    });
    rest.sort((p, q) => p.left - q.left);
    if (lanes < 2 && rest.some((one) => one.late)) rest.forEach((one) => { one.late = true; });
    for (const { tag, longest, late } of [...rest.filter((one) => one.late), ...rest.filter((one) => !one.late).reverse()]) {
      first(tag, [
        ...(lanes > 1 ? ["01", "234567"] : ["01234567"]).flatMap((rows) => longest.flatMap(([lane, a, b]) => (late ? ["end", "start"] : ["start", "end"]).flatMap((way) =>
          [...rows].filter((r) => !lane || r < 1).map((r) => [way, lane, way === "start" ? a + Math.min(1, (b - a) / 2) : b - Math.min(1, (b - a) / 2), r * row + (lane ? 0 : over)])))),
        ...longest.map(([lane]) => ["side", lane, end(lane) + 4]), ...Array.from({ length: 16 }, (_, r) => ["key", 0, wide, r * row + over])]);
    }
    roof ??= parseFloat(getComputedStyle(area.parentElement).marginTop);
    if (most + 5 > roof) area.parentElement.style.marginTop = (roof = most + 5) + "px";
  }
  function move(tag, px, py, there) {
    tag.hidden = !there;
    tag.style.left = px / 10 + "%";
    tag.style.bottom = py / 10 + "%";
    tag.classList.toggle("cl-left-of", px > 500);
  }

  // The cursor names one mark or, where there are none, reads the curves at one x, by pointer or arrow keys.
  let cursor = null;
  const stops = () => scatter.length ? marks.length : grid.length;
  const keys = curves.map((_, i) => all(`[data-curve="${i}"]`)), foot = figure.querySelector(".cl-foot"), here = make("b", { class: "cl-here" });
  const hair = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const ring = make("span", { class: "cl-ring", hidden: "" });
  function point(j) {
    cursor = j < 0 ? null : j;
    const said = scatter.length ? name(marks[j]) : read(j);
    area.setAttribute("aria-valuenow", Math.max(j, 0));
    area.setAttribute("aria-valuetext", said);
  }
  function name(mark) {
    ring.hidden = !mark;
    ring.style.left = mark?.px / 10 + "%";
    ring.style.bottom = mark?.py / 10 + "%";
    here.textContent = mark?.name ?? "";
    return mark?.name ?? "no mark chosen";
  }
  function read(j) {
    hair.setAttribute("d", `M${at(place(x, grid[j]))} 0V1000`);
    const texts = curves.map((_, i) => heights(mix, i)[j]).map((height, i) => height === NONE ? "none" : hidden(curves[i]) ? "?" : format(value(y, height), y));
    texts.forEach((text, i) => { for (const key of keys[i]) key.querySelector("b").textContent = text; });
    here.textContent = spec.at[j];
    return spec.at[j] + ": " + texts.map((text, i) => `${spec.curves[i]} ${text}`).join(", ");
  }
  if (scatter.length) {
    // An unseen copy of the longest name keeps its room, so that nothing moves when another is shown.
    area.append(ring);
    foot.append(make("div", { class: "cl-name" }, make("i", { "aria-hidden": "true" }, spec.longest), here));
  } else if (curves.length) {
    hair.setAttribute("class", "cl-hair");
    area.querySelector("svg").append(hair);
    keys.flat().forEach((key) => { if (!key.querySelector("b")) key.append(make("b")); });
    foot.prepend(here);
  }
  if (scatter.length || curves.length) {
    const [what, none] = scatter.length ? ["Read the marks. ", "no mark chosen"] : ["Read the curves. ", "no position chosen"];
    const label = what + area.getAttribute("aria-label");
    for (const [k, v] of Object.entries({ role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": grid.length - 1, "aria-valuenow": 0, "aria-valuetext": none, "aria-label": label, "data-lm-suppress-shortcuts": "true" })) area.setAttribute(k, v);
    const nearest = (e) => {
      const box = area.getBoundingClientRect(), px = 1000 * (e.clientX - box.left) / box.width, py = 1000 * (box.bottom - e.clientY) / box.height;
      const away = scatter.length
        ? marks.map((mark) => Math.hypot((mark.px - px) * box.width, (mark.py - py) * box.height))
        : grid.map((g) => Math.abs(place(x, g) - px));
      point(away.indexOf(Math.min(...away)));
    };
    area.addEventListener("pointermove", nearest);
    area.addEventListener("pointerdown", nearest); // a tap does not move
    area.addEventListener("keydown", (e) => {
      const n = stops(), step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -n, End: n }[e.key];
      if (!step) return;
      e.preventDefault();
      point(Math.min(Math.max((cursor ?? Math.floor(n / 2)) + step, 0), n - 1));
    });
  }

  const listening = [], leaving = [];
  function listen(name, heard) {
    model.on("change:" + name, heard);
    listening.push(["change:" + name, heard]);
  }

  // Controls exist only where this script runs, so no reader meets a dead slider. A slider has a field beside it, which
  // takes a number with its unit.
  const choose = (c, v) => { model.set(c.name, v); model.save_changes(); };
  const shift = (c, by) => {
    if (!smooth(c)) return c.values[Math.min(Math.max(c.values.indexOf(now(c)) + by, 0), c.values.length - 1)];
    const v = now(c);
    if (c.whole && (span(c)[1] - span(c)[0] <= 100 || from(c, share(c, v) + by / 100) === v)) return within(c, v + by);
    const next = from(c, Math.min(Math.max(share(c, v) + by / 100, 0), 1));
    return next === v ? within(c, v + by * (span(c)[1] - span(c)[0]) / 1e4) : next;
  };
  function step(c, e, turned) {
    const sign = turned && /Left|Right/.test(e.key) ? -1 : 1, by = sign * { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -1e9, End: 1e9 }[e.key];
    if (!by) return;
    e.preventDefault();
    pause();
    choose(c, Math.abs(by) > 10 ? by < 0 ? c.values[0] : c.values.at(-1) : shift(c, by));
  }
  const text = (c, v) => smooth(c) ? write(v, { unit: c.unit, digits: 4, whole: c.whole && c.ladder.length === 1, ladder: c.ladder }) : c.labels[c.values.indexOf(v)];
  const told = make("p", { class: "cl-told", role: "status" });
  function typed(c, field) {
    if (field.value === text(c, now(c))) return;
    const found = /^([-+]?)(\$?)([\d.,]*\d[\d.,]*(?:e[-+]?\d+)?)\s*(.*)$/i.exec(field.value.trim()) ?? [];
    const number = Number((found[1] ?? "") + found[3]?.replaceAll(",", "")), [, , name] = rung(now(c), c.ladder, 4);
    let unit = found[4]?.trim() ?? "";
    if (found[2] || (c.unit[0] === "$" && unit[0] !== "$")) unit = unit || found[2] ? "$" + unit : name;
    else if (unit === "") unit = name;
    const names = Object.keys(c.spellings), has = (w) => names.find((n) => n === w) ?? names.find((n) => n.toLowerCase() === w.toLowerCase());
    const spelt = has(unit) ?? has(unit.endsWith(c.unit) ? unit.slice(0, unit.length - c.unit.length).trim() : unit);
    const sized = number * c.spellings[spelt], kept = within(c, c.whole ? Math.round(sized) : Number(sized.toPrecision(12)));
    const wrong = Number.isNaN(sized) ? `Write a number${c.unit ? " and a unit, such as " + names.filter((n) => n).slice(0, 6).join(", ") : ""}.` : Math.abs(kept - sized) > Math.abs(kept) / 2e3 ? `${c.label} goes from ${text(c, span(c)[0])} to ${text(c, span(c)[1])}.` : "";
    field.setAttribute("aria-invalid", String(Number.isNaN(sized)));
    told.textContent = wrong;
    if (Number.isNaN(sized)) return;
    choose(c, smooth(c) ? kept : c.values.reduce((best, v) => Math.abs(v - sized) < Math.abs(best - sized) ? v : best));
    sync();
  }
  const inputs = controls.map((c) => {
    const keep = { "data-lm-suppress-shortcuts": "true", name: c.name, id: `${id}-${c.name}` };
    if (c.kind === "select") {
      return make("select", { ...keep, onchange: (e) => choose(c, c.values[e.target.selectedIndex]) }, ...c.labels.map((label) => make("option", {}, label)));
    }
    if (c.kind === "toggle") return make("input", { ...keep, type: "checkbox", onchange: (e) => choose(c, e.target.checked) });
    const most = smooth(c) ? 1000 : c.values.length - 1;
    const slide = (e) => {
      pause();
      held = true;
      choose(c, smooth(c) ? from(c, e.target.value / most) : c.values[e.target.value]);
      held = false;
    };
    return make("input", { ...keep, type: "range", min: 0, max: most, step: smooth(c) ? "any" : 1, oninput: slide, onkeydown: (e) => step(c, e) });
  });
  const fields = controls.map((c) => {
    if (c.kind === "play") return make("span", { class: "cl-now", "aria-hidden": "true" });
    if (c.kind !== "slider") return null;
    const field = make("input", { class: "cl-now", type: "text", inputmode: c.unit ? "text" : "decimal", autocomplete: "off", spellcheck: "false", "aria-label": c.label + ", typed", "data-lm-suppress-shortcuts": "true", onchange: () => typed(c, field), onfocus: () => field.select() });
    field.style.setProperty("--cl-letters", Math.max(...c.values.map((v) => text(c, v).length)));
    field.addEventListener("keydown", (e) => {
      if (e.key === "Enter") typed(c, field);
      else if (e.key === "Escape") { field.setAttribute("aria-invalid", "false"); told.textContent = ""; field.value = ""; sync(); }
      else if (/^(Arrow(Up|Down)|Page)/.test(e.key)) step(c, e);
    });
    return field;
  });
  function sync() {
    const said = scene && table ? ". " + drawn(like(chosen()), 0) : "";
    controls.forEach((c, i) => {
      const v = now(c), j = c.values.indexOf(v);
      if (c.kind === "select") inputs[i].selectedIndex = j;
      else if (c.kind === "toggle") inputs[i].checked = Boolean(j);
      else {
        const shownAs = text(c, v), part = smooth(c) ? 1000 * share(c, v) : j;
        if (Math.abs(inputs[i].value - part) > 1e-6) inputs[i].value = part;
        inputs[i].style.setProperty("--cl-at", `${smooth(c) ? part / 10 : 100 * j / (c.values.length - 1)}%`);
        inputs[i].setAttribute("aria-valuetext", shownAs + (c.kind === "play" ? said : ""));
        if (c.kind === "play") fields[i].textContent = shownAs;
        else if (fields[i].getAttribute("aria-invalid") !== "true") fields[i].value = shownAs;
      }
    });
    keep();
  }

  // The page's address remembers what was moved, so that a colleague can be sent a state of a figure.
  const slug = spec.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  let later = 0;
  function keep() {
    if (!window.widgets || !settled) return;
    clearTimeout(later);
    later = setTimeout(() => {
      const address = new URL(location.href);
      for (const c of controls) {
        const name = `${slug}.${c.name}`, v = now(c);
        if (v === c.values[c.start]) address.searchParams.delete(name);
        else address.searchParams.set(name, v);
      }
      try { history.replaceState(history.state, "", address); } catch { /* a page on disk may have none of its own */ }
    }, 300);
  }
  let settled = false;
  function remembered() {
    const asked = window.widgets ? new URL(location.href).searchParams : null;
    for (const c of controls) {
      const given = asked?.get(`${slug}.${c.name}`) ?? null;
      if (given === null) continue;
      const v = c.kind === "select" ? given : c.kind === "toggle" ? given === "true" : Number(given);
      if (smooth(c) ? Number.isFinite(v) : c.values.includes(v)) model.set(c.name, smooth(c) ? within(c, c.whole ? Math.round(v) : v) : v);
    }
    settled = true;
  }

  // The steps of a process: back, on, and play, but not for who asked for less motion.
  let timer = null, playing = null;
  const icon = (d) => `<svg viewBox="0 0 10 10" aria-hidden="true"><path d="${d}"/></svg>`;
  const BACK = "M1 1h1.6v8H1zM9 1v8L3.2 5z", ON = "M9 1H7.4v8H9zM1 1v8l5.8-4z", PLAY = "M2 .5v9L9.5 5z", PAUSE = "M1.5 1h2.5v8H1.5zM6 1h2.5v8H6z";
  function button(name, d, onclick) {
    const made = make("button", { type: "button", "aria-label": name, onclick });
    made.innerHTML = icon(d);
    return made;
  }
  function pause() {
    clearInterval(timer);
    if (playing) dress(playing, "Play", PLAY);
    playing = null;
  }
  function dress(play, name, d) {
    play.setAttribute("aria-label", name);
    play.innerHTML = icon(d);
    figure.querySelector(".cl-readouts").setAttribute("aria-live", name === "Play" ? "polite" : "off");
  }
  function steps(c, slider) {
    const end = c.values.length - 1;
    const at = () => c.values.indexOf(now(c)), go = (by) => choose(c, c.values[Math.min(Math.max(at() + by, 0), end)]);
    const play = button("Play", PLAY, () => {
      const again = playing === play;
      pause();
      if (again) return;
      if (at() === end) choose(c, c.values[0]);
      dress(playing = play, "Pause", PAUSE);
      timer = setInterval(() => { go(1); if (at() === end) pause(); }, 1200);
    });
    const by = (n) => () => { pause(); go(n); };
    return make("div", { class: "cl-step", role: "group", "aria-label": c.label },
      button("Previous step", BACK, by(-1)), ...(calm ? [] : [play]), button("Next step", ON, by(1)), slider);
  }
  const reset = make("button", { type: "button", class: "cl-reset", onclick: () => {
    pause();
    told.textContent = "";
    for (const c of controls) model.set(c.name, c.values[c.start]);
    model.save_changes();
  } }, "Reset");
  figure.querySelector(".cl-controls").replaceChildren(
    ...controls.map((c, i) => {
      const slides = c.kind === "slider" || c.kind === "play";
      const named = make("label", { for: `${id}-${c.name}` }, c.label), parts = [named, inputs[i], fields[i] ?? ""];
      const long = c.kind === "select" && Math.max(...c.labels.map((label) => label.length)) > 19 ? " cl-long" : "";
      const row = make("div", { class: (slides ? "cl-slider" : "cl-" + c.kind) + long + (slides && !smooth(c) && c.kind === "slider" ? " cl-snaps" : "") }, ...parts);
      if (slides) row.style.setProperty("--cl-stops", c.values.length - 1);
      return c.kind === "play" ? steps(c, row) : row;
    }), ...(controls.length ? [reset, told] : []));
  figure.querySelector(".cl-readouts").setAttribute("aria-live", "polite");

  // A thing that moves a control, which takes the value that brings it nearest to the pointer.
  const grips = spec.drags.map(([kind, which, number]) => {
    const c = controls[number], box = () => (kind === "key" ? scene : area).getBoundingClientRect();
    const column = curves.length + readouts.length + (kind === "point" ? 2 * which : 2 * dots.length + which);
    const grip = make("span", { class: `cl-grip cl-grip-${kind}`, tabindex: 0, role: "slider", "aria-label": `${c.label}, in the picture`, "data-lm-suppress-shortcuts": "true", onkeydown: (e) => step(c, e, turned()) });
    // Where the thing stands on the screen in a mix; null where it is not there.
    function stands(mixture) {
      const { left, top, width, height } = box();
      if (kind !== "key") {
        const px = code(mixture, column), py = kind === "point" ? code(mixture, column + 1) : 0;
        const [u, v] = [place(x, px), kind === "point" ? place(y, py) : 500];
        return px === NONE || py === NONE || !inside(u, v) ? null : [left + u * width / 1000, top + height - v * height / 1000];
      }
      const rows = like(mixture), found = [...rows[0].scene.keys()].slice(1).map((i) => drawn(rows, i)).find((part) => part.includes(`data-key="${which}"`));
      const [a, b, w, h] = (/translate\(([-\d.]+)px,([-\d.]+)px\)"><rect width="([\d.]+)" height="([\d.]+)/.exec(found ?? "") ?? []).slice(1).map(Number);
      const scale = width / scene.viewBox.baseVal.width;
      return found ? [left + (a + w / 2) * scale, top + (b + h / 2) * scale] : null;
    }
    function settle() {
      const where = table && stands(mix), frame = where && figure.getBoundingClientRect();
      grip.hidden = !where || (kind !== "key" && hidden((kind === "point" ? dots : rules)[which]));
      if (!grip.hidden) Object.assign(grip.style, { left: `${where[0] - frame.left}px`, top: `${where[1] - frame.top}px` });
      for (const [name, v] of [["min", 0], ["max", 100], ["now", smooth(c) ? Math.round(100 * share(c, now(c))) : 100 * c.values.indexOf(now(c)) / (c.values.length - 1)]]) grip.setAttribute("aria-value" + name, v);
      grip.setAttribute("aria-valuetext", c.kind === "toggle" ? ["off", "on"][Number(now(c))] : text(c, now(c)));
    }
    // A thing that goes to the left as its value rises is moved to the right by the arrow to the right all the same.
    function turned() {
      const [low, high] = kind !== "key" && table ? [c.values[0], c.values.at(-1)].map((v) => stands(mixed(controls.map(now).with(number, v)))) : [];
      return Boolean(low && high && low[0] > high[0] + 1);
    }
    let path = null;
    grip.addEventListener("pointerdown", (e) => {
      if (!table) return;
      e.preventDefault();
      grip.focus({ preventScroll: true });
      grip.setPointerCapture(e.pointerId);
      pause();
      const values = controls.map(now), tries = smooth(c) ? Array.from({ length: 101 }, (_, i) => from(c, i / 100)) : c.values;
      path = tries.map((v) => [v, stands(mixed(values.with(number, v)))]).filter(([, where]) => where);
    });
    grip.addEventListener("pointermove", (e) => {
      if (!path?.length) return;
      const away = ([, [px, py]]) => kind === "rule" ? Math.abs(px - e.clientX) : Math.hypot(px - e.clientX, py - e.clientY);
      const best = path.reduce((a, b) => away(b) < away(a) ? b : a);
      held = true;
      if (best[0] !== now(c)) choose(c, best[0]);
      held = false;
    });
    for (const end of ["pointerup", "pointercancel"]) grip.addEventListener(end, () => { path = null; });
    figure.append(grip);
    settle(); // where the page leaves out what is far away, nothing else does so before it comes near
    return { settle };
  });
  if (grips.length || kinds.length || curves.length) {
    const sizes = new ResizeObserver(() => { grips.forEach(({ settle }) => settle()); if (table) nameBars(); if (named) nameCurves(named); });
    sizes.observe(figure);
    leaving.push(() => sizes.disconnect());
  }

  // Predict first: what a question asks about stays hidden until it is answered, shown, or no question is wanted. The
  // browser remembers; one switch holds for the whole book.
  if (spec.predict) {
    const { question, answers, right } = spec.predict, name = "cl-guess-" + Math.random().toString(36).slice(2);
    const said = make("p", { class: "cl-said", role: "status", tabindex: -1 });
    const worded = (text, onclick) => make("button", { type: onclick ? "button" : "submit", ...(onclick && { onclick }) }, text);
    const settle = (note, value) => { remember(note, value); window.dispatchEvent(new Event("cl-predict")); said.focus(); };
    const form = make("form", { class: "cl-predict", onsubmit: (e) => {
      e.preventDefault();
      const picked = form.querySelector("input:checked");
      if (!picked) { said.textContent = "Pick an answer first; a wrong one teaches more than none."; return; }
      model.set("guess", picked.value);
      model.save_changes();
      settle(question, picked.value);
    } }, make("fieldset", {}, make("legend", {}, question), ...answers.map(([answer]) =>
      make("label", {}, make("input", { type: "radio", name, value: answer, "data-lm-suppress-shortcuts": "true" }), " " + answer))),
    worded("Commit my prediction"), worded("Show me", () => settle(question, "")), worded("Stop asking in this book", () => settle("off", "")));
    const again = make("button", { type: "button", class: "cl-again", onclick: () => {
      model.set("guess", "");
      model.save_changes();
      remember(question, null);
      settle("off", null);
      form.querySelector("input").focus();
    } }, "Ask me first");
    const ask = () => {
      const guess = model.get("guess") || recall(question), off = recall("off") !== null, asking = guess === null && !off;
      const why = Object.fromEntries(answers);
      figure.classList.toggle("cl-ask", asking);
      form.hidden = !asking;
      again.hidden = asking;
      said.className = "cl-said" + (!guess ? "" : guess === right ? " cl-right cl-c-memory" : " cl-wrong cl-c-red");
      if (asking || guess === null) said.textContent = "";
      else if (guess === right) said.textContent = `Right: ${right}. ${why[right]}`;
      else said.textContent = (guess ? `You said: ${guess}. ${why[guess] ?? ""} ` : "") + `The answer: ${right}. ${guess ? "" : why[right]}`;
      shown = null;
      if (table) draw();
    };
    figure.querySelector(".cl-premise").after(form, said);
    figure.querySelector(".cl-controls").append(again);
    listen("guess", ask);
    window.addEventListener("cl-predict", ask);
    leaving.push(() => window.removeEventListener("cl-predict", ask));
    ask();
  }

  for (const c of controls) listen(c.name, draw);
  listen("_exact", draw);
  const ready = () => {
    if (!model.get("_table")?.codes) return;
    table = opened(model.get("_table"));
    figure.dataset.table = "true";
    draw();
  };
  listen("_table", ready);
  remembered();
  ready();
  if (!table) sync();
  figure.dataset.ready = "true";
  return () => { pause(); cancelAnimationFrame(frame); leaving.forEach((leave) => leave()); for (const [event, heard] of listening) model.off(event, heard); };
}

export default { render };
