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
    send() {}
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

  // One widget after the other, with a pause for the browser where they have taken longer than it may wait.
  async function start(models) {
    const live = {};
    let since = performance.now();
    for (const el of document.querySelectorAll(".widget-host")) {
      const id = el.dataset.model;
      try {
        if (performance.now() - since > 6) {
          await new Promise((done) => { setTimeout(done); });
          since = performance.now();
        }
        const { kind, state, buffers } = JSON.parse(models[id]);
        let widget = (await kinds[kind]).default;
        if (typeof widget === "function") widget = await widget();
        if (!live[id]) {
          buffers.forEach((buffer) => attach(state, buffer));
          live[id] = new Model(state);
          await widget.initialize?.({ model: live[id] });
        }
        await widget.render?.({ model: live[id], el });
      } catch (error) {
        console.error(`widget ${id} did not start`, error);
      }
    }
  }
  return { kind, start };
})();
