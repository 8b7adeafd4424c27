// The browser half of clusterlab.Check: reads what is typed and judges it as clusterlab.question does. It computes no law.
export function read(text, spec) {
  const match = text.replace(new RegExp(spec.spaces, "g"), " ").match(new RegExp(spec.pattern));
  if (!match) return null;
  const [, sign, currency, number, unit = ""] = match;
  let name = currency + unit.replaceAll("\u03bc", "\u00b5");
  if (spec.label) name = name.toLowerCase();
  const size = name ? new Map(Object.entries(spec.units)).get(name) : 1;
  const value = Number(sign + number.replaceAll(",", "")) * size;
  return Number.isFinite(value) ? { value, bare: !name } : null;
}

export function judge(text, spec) {
  const say = (kind) => ({ kind, text: spec.said[kind] });
  if (spec.choices.length) {
    const why = new Map(spec.choices).get(text);
    return text === spec.answer ? say("right") : why === undefined ? say("unread") : { kind: "mistake", text: why };
  }
  const reading = read(text, spec);
  if (!reading) return say("unread");
  const { value, bare } = reading, right = spec.answer;
  const near = (v, target) => Math.abs(v - target) <= spec.tolerance * Math.abs(target);
  if (near(value, right)) return say("right");
  const off = ([wrong]) => Math.abs(value - wrong);
  const known = spec.mistakes.filter(([wrong]) => near(value, wrong)).sort((a, b) => off(a) - off(b));
  if (known.length) return { kind: "mistake", text: known[0][1] };
  const meant = [right, ...("%" in spec.units ? spec.mistakes.map(([wrong]) => wrong) : [])];
  if (bare && Object.values(spec.units).some((size) => meant.some((one) => near(value * size, one)))) return say("unit");
  if (spec.shifts.some((shift) => near(value * shift, right))) return say("prefix");
  return say(value < right ? "low" : "high");
}

export const reveal = (sealed) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(sealed), (c) => c.charCodeAt(0) ^ 42)));

// What the browser remembers, by question: where it may not, only this page does.
const KIND = "check ", here = {};
function load(key) {
  try { return JSON.parse(recall(KIND + key)) ?? here[key]; } catch { return here[key]; }
}
function store(key, note) {
  here[key] = note;
  remember(KIND + key, note && JSON.stringify(note));
}
function all() {
  let keys = [];
  try { keys = Object.keys(localStorage).filter((key) => key.startsWith(NOTES + KIND)).map((key) => key.slice((NOTES + KIND).length)); } catch { /* none */ }
  return [...new Set([...keys, ...Object.keys(here)])].filter(load);
}
const cell = (value) => `"${String(value ?? "").replace(/^[=+@-]/, "'$&").replaceAll('"', '""')}"`;
// FNV-1a over the characters: it tells a file that was edited, or saved again by a spreadsheet. It proves nothing.
export const checksum = (text) => [...text].reduce((sum, c) => Math.imul(sum ^ c.codePointAt(0), 16777619) >>> 0, 2166136261).toString(16).padStart(8, "0");
function save() {
  const rows = all().map((key) => load(key)).sort((a, b) => (a.at < b.at ? -1 : 1));
  const made = (r) => Object.entries(r.made ?? {}).map(([why, times]) => `${times} x ${why}`).join(" | ");
  const lines = [["question", "state", "tries", "hints", "answer", "mistakes", "last"], ...rows.map((r) => [r.text, r.state, r.tries, r.hints, r.given, made(r), r.at])];
  const csv = lines.map((line) => line.map(cell).join(",") + "\r\n").join("");
  const url = URL.createObjectURL(new Blob([`${csv}"checksum","${checksum(csv)}"\r\n`], { type: "text/csv" }));
  make("a", { href: url, download: "clusterlab-progress.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function render({ model, el }) {
  if (!el.querySelector(".cl-check")) el.innerHTML = model.get("_html");
  const box = el.querySelector(".cl-check"), spec = reveal(model.get("_sealed"));
  box.querySelectorAll(":scope > :not(.cl-question)").forEach((node) => node.remove());
  const keep = { "data-lm-suppress-shortcuts": "true" }, steps = spec.hints.length + 1, group = "cl-" + Math.random().toString(36).slice(2);
  const button = (text, onclick, type = "button") => make("button", { type, onclick, ...keep }, text);
  const fields = spec.choices.map(([choice]) => make("input", { type: "radio", name: group, value: choice, ...keep }));
  const field = make("input", { type: "text", autocomplete: "off", spellcheck: "false", onkeydown: (e) => {
    if (e.key !== "Enter" || e.isComposing) return;
    e.preventDefault(); // JupyterLab does not submit a form on Enter
    form.requestSubmit();
  }, ...keep });
  const entry = fields.length
    ? make("fieldset", {}, make("legend", {}, spec.asked), ...fields.map((f, i) => make("label", {}, f, " " + spec.choices[i][0])))
    : make("label", {}, spec.asked, field);
  const said = make("p", { class: "cl-verdict", role: "status", tabindex: -1 });
  const hints = make("ol", { class: "cl-hints", tabindex: -1, "aria-label": "Hints", "aria-live": "polite" });
  const more = button("", () => { note({ hints: told().hints + 1 }); (more.hidden ? hints : more).focus(); });
  const again = button("Start over", () => { forget([spec.id]); (fields[0] ?? field).focus(); });
  const form = make("form", { novalidate: "", onsubmit: (e) => {
    e.preventDefault();
    const given = (fields.length ? fields.find((f) => f.checked)?.value : field.value.trim()) ?? "";
    if (!given) { said.textContent = "Type an answer first; a wrong one teaches more than none."; return; }
    const was = told(), { kind, text } = judge(given, spec), made = { ...was.made };
    if (kind === "mistake") made[text] = (made[text] ?? 0) + 1;
    const state = was.state === "right" || was.state === "shown" ? was.state : kind === "right" ? "right" : "open";
    note({ given, state, made, tries: was.tries + (kind === "unread" ? 0 : 1) });
    tell(given);
  } }, entry, make("div", { class: "cl-do" }, button("Check", () => {}, "submit"), more, again));
  const score = make("summary"), progress = make("details", { class: "cl-progress" }, score,
    button("Save my progress", save), button("Forget it all", () => { forget(all()); score.focus(); }));
  box.append(form, said, hints, progress);

  function tell(given) { // what the reader has answered, for the kernel
    if (model.get("given") === given) return;
    model.set("given", given);
    model.save_changes();
  }
  const told = () => load(spec.id) ?? { text: spec.text, state: "open", tries: 0, hints: 0, given: "" };
  function note(news) {
    const next = { ...told(), ...news, at: new Date().toISOString().slice(0, 16) };
    if (next.hints >= steps && next.state === "open") next.state = "shown";
    store(spec.id, next);
    window.dispatchEvent(new Event("cl-check"));
  }
  function forget(keys) {
    keys.forEach((key) => store(key, null));
    window.dispatchEvent(new Event("cl-check"));
  }
  let shown = "";
  function draw() {
    const now = told(), { kind, text } = now.given ? judge(now.given, spec) : {}, open = kind === "right" || now.hints >= steps;
    const state = JSON.stringify(now);
    if (state !== shown) {
      shown = state;
      if (fields.length) fields.forEach((f) => { f.checked = f.value === now.given; });
      else field.value = now.given;
      box.dataset.state = now.state;
      said.className = "cl-verdict" + (!kind || kind === "unread" ? "" : kind === "right" ? " cl-right" : " cl-wrong");
      said.textContent = text ?? "";
      const lines = [...spec.hints.slice(0, now.hints), ...(open ? [kind !== "right" ? `Answer: ${spec.shown}. ${spec.way}`.trim() : fields.length ? "" : spec.way] : [])].filter(Boolean);
      lines.slice(hints.children.length).forEach((line) => hints.append(make("li", {}, line)));
      while (hints.children.length > lines.length || [...hints.children].some((li, i) => li.textContent !== lines[i])) {
        hints.replaceChildren(...lines.map((line) => make("li", {}, line)));
      }
      const left = spec.hints.length - now.hints;
      more.hidden = open;
      more.textContent = left > 0 ? `Hint ${now.hints + 1} of ${spec.hints.length}` : "Show me how";
      again.hidden = !now.given && !now.hints;
    }
    const page = [...document.querySelectorAll(".cl-check[data-state]")];
    score.textContent = `${page.filter((one) => one.dataset.state === "right").length} of ${page.length} right`;
  }
  const redraw = () => { draw(); queueMicrotask(draw); }; // the others of the page first, then the count
  window.addEventListener("cl-check", redraw);
  redraw();
  tell(told().given);
  setTimeout(() => window.dispatchEvent(new Event("cl-check"))); // JupyterLab shows it only now, and then it counts
  box.dataset.ready = "true";
  return () => window.removeEventListener("cl-check", redraw);
}

export default { render };
