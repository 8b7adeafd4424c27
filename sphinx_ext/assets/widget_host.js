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

  // One widget after the other, with a pause for the browser where they have taken longer than it may wait.
  async function start(models, base) {
    const live = {};
    let since = performance.now();
    for (const el of document.querySelectorAll(".widget-host")) {
      const id = el.dataset.model;
      try {
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
      } catch (error) {
        console.error(`widget ${id} did not start`, error);
      }
    }
  }
  return { kind, start, table };
})();
