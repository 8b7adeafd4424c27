// What a page does besides showing its text: colour mode, search, side bars, contents, menus. It stands for the theme's
// scripts and for Bootstrap, forces no layout, and keeps to the names in the theme's templates.
(() => {
  const root = document.documentElement, one = (query) => document.querySelector(query), all = (query) => [...document.querySelectorAll(query)];
  const wide = matchMedia("(min-width: 992px)"), dark = matchMedia("(prefers-color-scheme: dark)");
  const keep = (store, name, value) => { try { store.setItem(name, value); } catch { /* then it is forgotten */ } };
  const recall = (store, name) => { try { return store.getItem(name); } catch { return null; } };

  // The colour mode: one of the two, or as the system has it.
  function colour(mode) {
    root.dataset.mode = mode;
    root.dataset.theme = mode === "auto" ? (dark.matches ? "dark" : "light") : mode;
    all(".dropdown-menu").forEach((menu) => menu.classList.toggle("dropdown-menu-dark", root.dataset.theme === "dark"));
  }
  colour(root.dataset.mode);
  dark.addEventListener("change", () => colour(root.dataset.mode));
  addEventListener("beforeprint", () => { root.dataset.theme = "light"; }); // paper is
  addEventListener("afterprint", () => colour(root.dataset.mode));
  all(".theme-switch-button").forEach((button) => button.addEventListener("click", () => {
    const modes = dark.matches ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
    colour(modes[(modes.indexOf(root.dataset.mode) + 1) % 3]);
    keep(localStorage, "mode", root.dataset.mode);
  }));

  // A dialog closes where its surroundings are clicked, and by Escape, which Sphinx would keep for itself.
  function closable(dialog) {
    dialog.addEventListener("click", (e) => {
      const box = dialog.getBoundingClientRect();
      if (e.target === dialog && (e.clientX < box.left || e.clientX > box.right || e.clientY < box.top || e.clientY > box.bottom)) dialog.close();
    });
    dialog.addEventListener("keydown", (e) => {
      if (e.key !== "Escape") return;
      e.stopPropagation();
      dialog.close();
    });
  }

  // Search: the page's own field where it has one, else the dialog.
  const search = one("#pst-search-dialog"), field = one(":not(dialog) > form.bd-search input"), mac = /Mac|iPhone/.test(navigator.platform);
  function find() {
    if (field) { field.focus(); field.select(); }
    else if (search.open) search.close();
    else {
      search.showModal();
      // What it finds while one types is loaded when somebody searches.
      const missing = one("script[src$='things.js']") ? [] : ["_static/finder.js", "things.js"];
      for (const name of missing) document.head.append(Object.assign(document.createElement("script"), { src: root.dataset.content_root + name, async: false }));
    }
  }
  closable(search);
  all(".search-button__button").forEach((button) => button.addEventListener("click", find));
  if (mac) all(".kbd-shortcut__modifier").forEach((key) => { key.textContent = "⌘"; });
  addEventListener("keydown", (e) => {
    if (!/^k$/i.test(e.key) || e.shiftKey || e.altKey || e.ctrlKey === mac || e.metaKey !== mac) return;
    e.preventDefault();
    find();
  }, true);

  // The side bars: on a narrow screen each opens in a dialog; on a wide one the first can be hidden.
  for (const [name, side] of [["primary", one("#pst-primary-sidebar")], ["secondary", one("#pst-secondary-sidebar")]]) {
    const button = one(`.${name}-toggle`), dialog = one(`#pst-${name}-sidebar-modal`);
    if (!button || !side || !dialog) continue;
    const move = (from, to) => {
      to.append(...from.childNodes);
      to.classList.add(...from.classList);
      from.className = "";
    };
    button.addEventListener("click", () => {
      if (name === "primary" && wide.matches) { side.classList.toggle("pst-sidebar-hidden"); return; }
      move(side, dialog);
      dialog.showModal();
    });
    closable(dialog);
    dialog.addEventListener("click", (e) => { if (e.target.closest("a")) dialog.close(); });
    dialog.addEventListener("close", () => move(dialog, side));
  }
  const bar = one("#pst-primary-sidebar"), stood = recall(sessionStorage, "sidebar-scroll-top");
  if (wide.matches && Number(stood)) bar.scrollTop = stood;
  addEventListener("pagehide", () => keep(sessionStorage, "sidebar-scroll-top", bar.scrollTop));

  // Back to the top: offered to a reader who scrolls up.
  const top = one("#pst-back-to-top");
  let before = 0;
  addEventListener("scroll", () => {
    top.style.display = scrollY < before && scrollY > innerHeight ? "block" : "none";
    before = scrollY;
  }, { passive: true });
  top.addEventListener("click", () => scrollTo(0, 0));

  // Menus and the whole screen.
  all(".dropdown-toggle").forEach((button) => {
    const menu = button.nextElementSibling;
    const show = (shown) => { menu.classList.toggle("show", shown); button.setAttribute("aria-expanded", shown); };
    button.addEventListener("click", () => show(!menu.classList.contains("show")));
    addEventListener("click", (e) => { if (!button.contains(e.target)) show(false); });
    button.parentElement.addEventListener("keydown", (e) => {
      if (e.key !== "Escape" || !menu.classList.contains("show")) return;
      show(false);
      button.focus();
    });
  });
  window.toggleFullScreen = () => document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen();

  // The contents mark the heading that the reader is at, and make room for what stands in the margin.
  const links = new Map(all("#pst-page-toc-nav a[href^='#']").map((link) => {
    const place = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    return [place?.querySelector("h1, h2, h3, h4") ?? place, link];
  }));
  links.delete(null);
  let asked = -1000; // when the reader last chose an entry, which then stays marked while the page goes there
  function mark(here) {
    for (const link of links.values()) {
      link.classList.toggle("active", link === here);
      if (link === here) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
    all("#pst-page-toc-nav .toc-entry").forEach((entry) => entry.classList.toggle("active", entry.contains(here)));
  }
  const reading = new IntersectionObserver((met) => {
    const last = met.filter((entry) => entry.isIntersecting).pop();
    if (last && performance.now() > asked + 1000) mark(links.get(last.target));
  }, { rootMargin: "0px 0px -70% 0px" });
  for (const heading of links.keys()) reading.observe(heading);
  addEventListener("hashchange", () => {
    const chosen = [...links.values()].find((link) => link.hash === location.hash);
    if (!chosen) return;
    asked = performance.now();
    mark(chosen);
  });

  // A link to a second reading, or to something in one, opens it. An address with a figure's state may mean one there, and
  // on paper all are open.
  const second = all("details.second");
  function unfold() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (const fold of second) if (fold.parentElement === place || fold.contains(place)) fold.open = true;
    if (place?.closest("details.second")) place.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  const unfoldAll = () => second.forEach((fold) => { fold.open = true; });
  addEventListener("beforeprint", unfoldAll);
  if (location.search) unfoldAll(); else unfold();

  const beside = new Set(), margin = new IntersectionObserver((met) => {
    for (const { target, isIntersecting } of met) beside[isIntersecting ? "add" : "delete"](target);
    one("#pst-secondary-sidebar")?.classList.toggle("hide", beside.size > 0);
  }, { rootMargin: "0px 0px -33% 0px" });
  all(".bd-article :is(.margin, .marginnote, .sidenote, .full-width, .tag_margin, .tag_wide)").forEach((note) => margin.observe(note));

  // The side bar ticks the pages that the reader has read to the end, here or before.
  const name = (path) => `read:${path}`, entries = all(".bd-docs-nav a.internal");
  const tick = () => entries.forEach((entry) => entry.classList.toggle("read", recall(localStorage, name(new URL(entry.href).pathname)) !== null));
  const end = one(".prev-next-footer"), ended = new IntersectionObserver((met) => {
    if (!met.some((entry) => entry.isIntersecting)) return;
    ended.disconnect();
    keep(localStorage, name(location.pathname), "");
    tick();
  });
  if (end) ended.observe(end);
  tick();

  // What waits to be laid out (light_pages) is, from the reader's first move on or when the page has been there for half a
  // second: in order, and in slices too short to be felt. Before, a telephone has enough to do.
  const waiting = all(".waits"), idle = window.requestIdleCallback ?? setTimeout;
  const moves = ["pointerdown", "pointermove", "touchstart", "wheel", "scroll", "keydown", "focusin"];
  function lay() {
    const end = performance.now() + 8;
    while (waiting.length && performance.now() < end) {
      waiting.shift().classList.remove("waits");
      root.offsetHeight; // lays it out now, so that the clock counts it
    }
    if (waiting.length) soon(); else root.dataset.whole = "";
  }
  function soon() {
    idle(lay, { timeout: 500 }); // a browser that is never idle would leave them for ever
  }
  const start = () => { moves.forEach((move) => removeEventListener(move, start)); soon(); };
  const loaded = () => {
    moves.forEach((move) => addEventListener(move, start, { passive: true }));
    setTimeout(start, 500);
  };
  if (document.readyState === "complete") loaded(); else addEventListener("load", loaded); // this script may come later
})();
