// Runs anywidgets on a static page: gives each one the little of a Jupyter model that it uses, and its element.
(() => {
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
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const owner = path.slice(0, -1).reduce((node, key) => node[key], state);
    owner[path.at(-1)] = new DataView(bytes.buffer);
  }

  // The widgets' scripts are on their way while the page is still being read.
  const kinds = JSON.parse(document.getElementById("widget-kinds").textContent);
  for (const [kind, source] of Object.entries(kinds)) {
    kinds[kind] = import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  }

  // Called where the text ends: from there on the figures answer, whatever else is still to come.
  window.startWidgets = async () => {
    const { models } = JSON.parse(document.getElementById("widget-state").textContent);
    const live = {};
    for (const el of document.querySelectorAll(".widget-host")) {
      const id = el.dataset.model, { kind, state, buffers } = models[id];
      try {
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
  };
})();
