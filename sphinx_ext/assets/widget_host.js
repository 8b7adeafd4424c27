// Runs anywidgets on a static page: gives each one the little of a Jupyter model that it uses, and its element.
window.widgets = (() => {
  class Model {
    constructor(state) { this.state = state; this.heard = {}; }
    get(key) { return this.state[key]; }
    set(key, value) {
      if (typeof key === "object") return Object.entries(key).forEach(([k, v]) => this.set(k, v));
      if (this.state[key] === value) return;
      this.state[key] = value;
      this.tell("change:" + key, value);
      this.tell("change");
    }
    tell(event, value) { (this.heard[event] ?? []).slice().forEach((f) => f({ name: event }, value)); }
    on(event, f) { (this.heard[event] ??= []).push(f); }
    off(event, f) { this.heard[event] = f ? (this.heard[event] ?? []).filter((g) => g !== f) : []; }
    save_changes() {} // there is no kernel to tell
    send({ wants }) { if (wants === "table") this.fetch?.(); }
  }

  // A buffer's path says which trait it belongs to: ["_table"], or deeper for nested state.
  function attach(state, { path, data }) {
    const text = atob(data), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const owner = path.slice(0, -1).reduce((node, key) => node[key], state);
    owner[path.at(-1)] = new DataView(bytes.buffer);
  }

  // A widget's own script is a module: it comes as text, for a page on disk may load scripts but no modules.
  const kinds = {};
  function kind(name, source) {
    kinds[name] = import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  }

  // A widget's table stands in a file of its own, which is loaded when the widget comes near or is moved.
  const waiting = {}, near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) if (isIntersecting) waiting[target.dataset.model]?.();
  }, { rootMargin: "100% 0px" });
  function later(id, model, url, el) {
    model.fetch = waiting[id] = () => {
      delete model.fetch;
      delete waiting[id];
      near.unobserve(el);
      document.head.append(Object.assign(document.createElement("script"), { src: url }));
    };
    tables[id] = model;
    near.observe(el);
  }
  const tables = {};
  function table(id, text) {
    const { value, buffers } = JSON.parse(text), model = tables[id];
    buffers.forEach((buffer) => attach(value, buffer));
    Object.entries(value).forEach(([key, found]) => model.set(key, found));
  }

  const waits = (el) => el.closest(".waits") && !("whole" in document.documentElement.dataset);

  // One widget after the other, with a pause for the browser where they have taken longer than it may wait.
  async function start(models, base) {
    const live = {};
    let since = performance.now();
    for (const el of document.querySelectorAll(".widget-host")) {
      const id = el.dataset.model;
      try {
        // Far below it waits until its block is laid out (frame.js), which no reader comes to sooner.
        while (waits(el)) await new Promise((done) => { setTimeout(done, 30); });
        if (performance.now() - since > 6) {
          await new Promise((done) => { setTimeout(done); });
          since = performance.now();
        }
        const { kind, state, buffers, table } = JSON.parse(models[id]);
        let widget = (await kinds[kind]).default;
        if (typeof widget === "function") widget = await widget();
        if (!live[id]) {
          buffers.forEach((buffer) => attach(state, buffer));
          live[id] = new Model(state);
          await widget.initialize?.({ model: live[id] });
        }
        await widget.render?.({ model: live[id], el });
        if (table && !tables[id]) later(id, live[id], base + table, el);
        const figure = el.querySelector(".cl-explorer");
        if (figure) (window.requestIdleCallback ?? setTimeout)(() => join(figure), { timeout: 2000 });
      } catch (error) {
        console.error(`widget ${id} did not start`, error);
      }
    }
  }

  // What has one name lights up together: a curve or bars, their name, their lane or their key, a box, a read-out; and in
  // the text around the figure the same words, and the numbers that the figure tells.
  const PARTS = ".cl-scene .cl-box:has(text), .cl-scene .cl-label", NAMED = ".cl-legend li, .cl-tag, .cl-lanes .cl-left span, .cl-readouts div, " + PARTS;
  const plain = (text) => (text ?? "").replace(/\s+/g, " ").trim().toLowerCase();
  function nameOf(part) {
    if (part.matches("li")) return plain(part.childNodes[1].textContent);
    if (part.matches(".cl-left span")) return plain(part.textContent.split(":")[0]);
    return plain(part.matches(".cl-along") ? part.firstChild.textContent : part.querySelector("dt")?.textContent ?? part.textContent);
  }
  function join(figure) {
    const all = (query) => [...figure.querySelectorAll(query)], refs = [];
    // The path of a name in the picture: those of a kind stand in the same order.
    const paths = (part) => {
      const [tags, drawn] = [["[data-curve]", ".cl-curve"], ["[data-kind]", ".cl-span"], [".cl-at", ".cl-dot"], [".cl-top", ".cl-rule"]].find(([tag, path]) => part.matches(tag) && all(path).length) ?? [];
      return tags ? [all(drawn)[part.dataset.curve ?? part.dataset.kind ?? all(tags).indexOf(part)]].filter(Boolean) : [];
    };
    const named = (name) => all(NAMED).filter((part) => nameOf(part) === name).flatMap((part) => [part, ...paths(part)]);
    function light(name) {
      all(".cl-lit").forEach((part) => part.classList.remove("cl-lit"));
      const lit = name ? named(name) : [];
      lit.forEach((part) => part.classList.add("cl-lit"));
      figure.classList.toggle("cl-dims", lit.length > 0);
      for (const [ref, own] of refs) ref.classList.toggle("cl-lit", own === name);
    }
    function lights(part, name) {
      const words = !part.closest("svg"); // what listens for the focus in a drawing would be a stop of the tab key
      for (const on of ["pointerenter", ...(words ? ["focus"] : [])]) part.addEventListener(on, () => light(name));
      for (const off of ["pointerleave", ...(words ? ["blur"] : [])]) part.addEventListener(off, () => light(null));
    }
    all(".cl-legend li, .cl-along, [data-kind], .cl-at, .cl-top, .cl-readouts div").forEach((part) => [part, ...paths(part)].forEach((one) => lights(one, nameOf(part))));
    // A part of a drawing, which is drawn anew as it moves, lights where something else has its name.
    figure.querySelector(".cl-scene")?.addEventListener("pointerover", (e) => {
      const part = e.target.closest(PARTS), name = part && nameOf(part);
      light(name && (named(name).length > 1 || refs.some(([, own]) => own === name)) ? name : null);
    });
    figure.addEventListener("pointerleave", () => light(null));

    const section = figure.closest("section");
    if (!section) return;
    const outside = (part) => !part.closest(".cl-explorer, .cl-check, .cl-ref, [aria-hidden], pre, nav, .admonition-title");
    function refer(part, name) {
      part.classList.add("cl-ref");
      if (!part.closest("a")) part.tabIndex = 0;
      refs.push([part, name]);
      lights(part.closest("a") ?? part, name);
    }
    const names = new Set(all(NAMED).map(nameOf).filter((name) => name.length > 2));
    for (const word of section.querySelectorAll("em, strong, .std-term, td:first-child")) {
      if (names.has(plain(word.textContent)) && outside(word)) refer(word, plain(word.textContent));
    }
    const told = all(".cl-readouts div").map((row) => [plain(row.querySelector("dd").textContent.split(" (")[0]), nameOf(row)]).filter(([text]) => /\d.*\D/.test(text) && text.length > 3);
    const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT), nodes = [];
    while (told.length && walker.nextNode()) {
      const node = walker.currentNode, around = node.parentElement;
      if (/\d/.test(node.data) && around.closest("p, li") && outside(around)) nodes.push(node);
    }
    for (const node of nodes) {
      const data = node.data.toLowerCase().replaceAll("\u00a0", " ");
      for (const [text, name] of told) {
        const at = data.indexOf(text);
        if (at < 0 || /[\d.,]/.test(data[at - 1] ?? "") || /[\w%]/.test(data[at + text.length] ?? "")) continue;
        const number = node.splitText(at), span = document.createElement("span");
        number.splitText(text.length);
        number.replaceWith(span);
        span.append(number);
        refer(span, name);
        break;
      }
    }
  }

  return { kind, start, table };
})();
