// The browser half of clusterlab.Explorer: looks pictures up in the table and draws them. It computes no law.
const NONE = 65535, STEPS = 65534;

// A y value at three significant digits (or a thousandth of a linear axis), in the units that Python chose for the axis.
function format(value, axis) {
  const step = (axis.high - axis.low) / 1000;
  const rounded = (axis.log ? value : Math.round(value / step) * step) || 0;
  const magnitude = Math.abs(Number(rounded.toPrecision(axis.digits)));
  const [, size, name] = axis.ladder.filter(([limit]) => magnitude >= limit * (1 - 1e-12)).pop();
  const number = (Math.abs(rounded) / size).toLocaleString("en-US", { maximumSignificantDigits: axis.digits });
  const unit = rounded ? name : axis.unit, sign = rounded < 0 ? "-" : "";
  if (unit[0] === "$") return sign + "$" + number + unit.slice(1);
  return sign + number + (unit === "" || unit === "%" ? "" : " ") + unit;
}

function render({ model, el }) {
  const spec = model.get("_spec"), bytes = model.get("_table");
  const table = new Uint16Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const { x, y, grid, controls } = spec, pool = spec.width * spec.count;
  if (!el.querySelector(".cl-explorer")) el.innerHTML = model.get("_html");
  const figure = el.querySelector(".cl-explorer"), area = figure.querySelector(".cl-area");
  const all = (selector) => [...figure.querySelectorAll(selector)];
  const curves = all(".cl-curve"), dots = all(".cl-dot"), rules = all(".cl-rule"), boxes = all(".cl-span"), bands = all(".cl-between");
  const scatter = spec.marks.map((_, i) => all(`.cl-area .cl-mark.cl-s${curves.length + i}`));
  const ruleTags = all(".cl-top"), dotTags = all(".cl-at"), readouts = all(".cl-readouts dd");
  const scene = figure.querySelector(".cl-scene"), calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

  // Positions in thousandths of an axis, and the values that stand there.
  const warped = (axis, code) => axis.first + axis.span * code / STEPS;
  const place = (axis, code) => 1000 * (warped(axis, code) - axis.low) / (axis.high - axis.low);
  const value = (axis, code) => axis.log ? 10 ** warped(axis, code) : warped(axis, code);
  const inside = (...places) => places.every((p) => p >= 0 && p <= 1000);
  const at = (n) => n.toFixed(1);

  const last = {};
  function stop(c) {
    const now = model.get(c.name), i = c.values.indexOf(now);
    if (i >= 0) last[c.name] = i;
    if (i >= 0 || typeof now !== "number") return last[c.name] ?? c.start;
    // A linked widget may hold a value between two stops: show the nearest.
    return c.values.reduce((best, v, j) => Math.abs(v - now) < Math.abs(c.values[best] - now) ? j : best, 0);
  }
  const row = () => controls.reduce((index, c) => index * c.values.length + stop(c), 0);

  function line(i) {
    let d = "", pen = "M";
    grid.forEach((gx, j) => {
      const code = table[pool + i * grid.length + j];
      if (code === NONE) pen = "M";
      else { d += pen + at(place(x, gx)) + " " + at(1000 - place(y, code)); pen = "L"; }
    });
    return d;
  }

  // Along one curve and back along the other.
  const outline = (low, high) => low && high && `M${[...low.slice(1).split(/[ML]/), ...high.slice(1).split(/[ML]/).reverse()].join("L")}Z`;

  // A zero-length stroke, which shows as its cap; nothing where the place is not there or out of the picture.
  function spot(cx, cy) {
    const px = place(x, cx), py = place(y, cy);
    return cx !== NONE && cy !== NONE && inside(px, py) ? `M${at(px)} ${at(1000 - py)}h0` : "";
  }

  // A part of a scene that has a key slides from where it was.
  function paint([alt, parts]) {
    const keyed = () => [...scene.querySelectorAll("[data-key]")];
    const was = Object.fromEntries(keyed().map((part) => [part.dataset.key, part.style.transform]));
    const links = () => [...scene.querySelectorAll("a")], held = links().indexOf(document.activeElement);
    scene.innerHTML = parts.map((number) => spec.parts[number]).join("");
    links()[held]?.focus({ preventScroll: true });
    scene.setAttribute("aria-label", alt);
    if (calm) return;
    for (const part of keyed()) {
      const from = was[part.dataset.key], to = part.style.transform;
      if (from && from !== to) part.animate({ transform: [from, to] }, { duration: 500, easing: "ease-in-out" });
    }
  }

  const hidden = (part) => part.classList.contains("cl-answer") && figure.classList.contains("cl-ask");
  let shown = -1, rows = [], marks = [];
  function draw() {
    const index = row();
    sync(index);
    if (index === shown) return;
    shown = index;
    let next = index * spec.width;
    rows = curves.map(() => table[next++]);
    const lines = rows.map(line);
    curves.forEach((path, i) => path.setAttribute("d", lines[i]));
    bands.forEach((path, i) => path.setAttribute("d", outline(...spec.bands[i].map((n) => lines[n]))));
    readouts.forEach((dd) => {
      const told = spec.strings[table[next++]], asked = hidden(dd.parentElement), text = asked ? "?" : told;
      if (dd.textContent !== text) dd.textContent = text;
      if (asked) dd.dataset.told = told; else delete dd.dataset.told; // paper cannot be asked: it is told
    });
    dots.forEach((path, i) => {
      const cx = table[next++], cy = table[next++], d = spot(cx, cy);
      path.setAttribute("d", d);
      move(dotTags[i], place(x, cx), place(y, cy), d !== "");
    });
    rules.forEach((path, i) => {
      const code = table[next++], px = place(x, code), there = code !== NONE && inside(px);
      path.setAttribute("d", there ? `M${at(px)} 0V1000` : "");
      move(ruleTags[i], px, 1000, there);
    });
    const held = marks[cursor]?.id, met = {};
    marks = [];
    spec.marks.forEach(([, count], i) => {
      let caps = "";
      for (let k = 0; k < count; k++, next += 3) {
        const [cx, cy, text] = table.subarray(next, next + 3), d = spot(cx, cy);
        met[text] = (met[text] ?? 0) + 1; // of marks that share a name, the first stays the first
        if (d && !hidden(scatter[i][0])) marks.push({ px: place(x, cx), py: place(y, cy), name: spec.strings[text], id: text + " " + met[text] });
        caps += d;
      }
      for (const path of scatter[i]) path.setAttribute("d", caps);
    });
    marks.sort((a, b) => a.px - b.px || a.py - b.py);
    if (scatter.length) area.setAttribute("aria-valuemax", Math.max(marks.length - 1, 0));
    all(".cl-in").forEach((tag) => tag.remove());
    let breaks = "";
    spec.spans.forEach(([, count], i) => {
      const height = 1000 / spec.lanes.length;
      let d = "";
      for (let k = 0; k < count; k++, next += 4) {
        const [lane, start, end, text] = table.subarray(next, next + 4);
        if (lane === NONE) continue;
        const a = place(x, start), b = place(x, end), middle = (lane + 0.5) * height;
        d += `M${at(a)} ${at(middle - 0.35 * height)}H${at(b)}v${at(0.7 * height)}H${at(a)}z`;
        if (a < 985 && b > 1000.5) breaks += `M985 ${at(middle - 0.35 * height)}` + `l8 ${at(0.175 * height)}l-8 ${at(0.175 * height)}`.repeat(2);
        if (text) area.append(make("span", { class: boxes[i].getAttribute("class").replace("cl-span", "cl-tag cl-in"), style: `left:${(a + b) / 20}%;top:${middle / 10}%` }, spec.strings[text]));
      }
      boxes[i].setAttribute("d", d);
    });
    figure.querySelector(".cl-break")?.setAttribute("d", breaks);
    if (scene) paint(spec.scenes[table[next++]]);
    if (cursor !== null) point(scatter.length ? marks.findIndex((mark) => mark.id === held) : cursor);
  }
  function move(tag, px, py, there) {
    tag.hidden = !there;
    tag.style.left = px / 10 + "%";
    tag.style.bottom = py / 10 + "%";
    tag.classList.toggle("cl-left-of", px > 500);
  }

  // The cursor names one mark or, where there are none, reads the curves at one x: by pointer, or by arrow keys on the
  // focused picture.
  let cursor = null;
  const stops = () => scatter.length ? marks.length : grid.length;
  const keys = all(".cl-legend li"), foot = figure.querySelector(".cl-foot"), here = make("b", { class: "cl-here" });
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
    const texts = rows.map((r) => table[pool + r * grid.length + j]).map((code, i) => code === NONE ? "none" : hidden(curves[i]) ? "?" : format(value(y, code), y));
    texts.forEach((text, i) => { keys[i].querySelector("b").textContent = text; });
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
    keys.forEach((li) => { if (!li.querySelector("b")) li.append(make("b")); });
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

  // Controls exist only where this script runs, so no reader meets a dead slider.
  const choose = (c, i) => { model.set(c.name, c.values[i]); model.save_changes(); };
  const inputs = controls.map((c) => {
    const keep = { "data-lm-suppress-shortcuts": "true", name: c.name };
    if (c.kind === "select") {
      return make("select", { ...keep, onchange: (e) => choose(c, e.target.selectedIndex) }, ...c.labels.map((text) => make("option", {}, text)));
    }
    if (c.kind === "toggle") return make("input", { ...keep, type: "checkbox", onchange: (e) => choose(c, Number(e.target.checked)) });
    return make("input", { ...keep, type: "range", min: 0, max: c.values.length - 1, step: 1, oninput: (e) => { pause(); choose(c, Number(e.target.value)); } });
  });
  const outputs = controls.map((c) => c.kind === "slider" || c.kind === "play" ? make("span", { class: "cl-now", "aria-hidden": "true" }) : null);
  function sync(index) {
    const told = scene ? ". " + spec.scenes[table[(index + 1) * spec.width - 1]][0] : "";
    controls.forEach((c, i) => {
      const j = stop(c);
      if (c.kind === "select") inputs[i].selectedIndex = j;
      else if (c.kind === "toggle") inputs[i].checked = Boolean(j);
      else {
        inputs[i].value = j;
        inputs[i].setAttribute("aria-valuetext", c.labels[j] + (c.kind === "play" ? told : ""));
        outputs[i].textContent = c.labels[j];
      }
    });
  }

  // The steps of a process: back, on, and play, which nobody is shown who asked for less motion.
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
    const go = (by) => choose(c, Math.min(Math.max(stop(c) + by, 0), end));
    const play = button("Play", PLAY, () => {
      const again = playing === play;
      pause();
      if (again) return;
      if (stop(c) === end) choose(c, 0);
      dress(playing = play, "Pause", PAUSE);
      timer = setInterval(() => { go(1); if (stop(c) === end) pause(); }, 1200);
    });
    const by = (n) => () => { pause(); go(n); };
    return make("div", { class: "cl-step", role: "group", "aria-label": c.label },
      button("Previous step", BACK, by(-1)), ...(calm ? [] : [play]), button("Next step", ON, by(1)), slider);
  }
  const reset = make("button", { type: "button", class: "cl-reset", onclick: () => {
    pause();
    for (const c of controls) model.set(c.name, c.values[c.start]);
    model.save_changes();
  } }, "Reset");
  figure.querySelector(".cl-controls").replaceChildren(
    ...controls.map((c, i) => {
      const label = make("label", { class: outputs[i] ? "cl-slider" : "cl-" + c.kind }, make("span", {}, c.label), inputs[i], outputs[i] ?? "");
      return c.kind === "play" ? steps(c, label) : label;
    }), ...(controls.length ? [reset] : []));
  figure.querySelector(".cl-readouts").setAttribute("aria-live", "polite");

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
      shown = -1;
      draw();
    };
    figure.querySelector(".cl-premise").after(form, said);
    figure.querySelector(".cl-controls").append(again);
    listen("guess", ask);
    window.addEventListener("cl-predict", ask);
    leaving.push(() => window.removeEventListener("cl-predict", ask));
    ask();
  }

  for (const c of controls) listen(c.name, draw);
  draw();
  figure.dataset.ready = "true";
  return () => { pause(); leaving.forEach((leave) => leave()); for (const [event, heard] of listening) model.off(event, heard); };
}

export default { render };
