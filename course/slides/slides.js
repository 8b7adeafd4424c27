// One slide at a time. Right, left and space turn, and first show what a slide keeps back; page keys leave it untold; N shows
// the notes, S opens them in a window of their own, O lists the slides, F fills the screen, D turns light to dark.
(() => {
  const root = document.documentElement, slides = [...document.querySelectorAll("main > section")];
  const steps = (slide) => [...slide.querySelectorAll(".step")];
  const kept = (slide) => steps(slide).filter((one) => one.classList.contains("off"));
  let at = Math.min(Math.max(0, Number(location.hash.slice(1)) - 1), slides.length - 1), speaker = null, begun = 0;

  // The largest letters with which a slide fits, in hundredths of its width: text may be larger than a figure.
  const SIZES = { text: [1.6, 2.6], figure: [0.95, 1.85] };
  function fit(slide) {
    const body = slide.querySelector(".body");
    if (!body.clientWidth) return;
    const drawn = slide.querySelector(".widget-host");
    let [low, high] = SIZES[drawn ? "figure" : "text"];
    const over = (size) => {
      slide.style.setProperty("--fit", size);
      if (body.scrollHeight > body.clientHeight || body.scrollWidth > body.clientWidth + 1) return true;
      // As a figure moves, a name may leave its curve for a legend: that line is kept free.
      const [top, bottom] = [body.firstElementChild.getBoundingClientRect().top, body.lastElementChild.getBoundingClientRect().bottom];
      return Boolean(drawn) && bottom - top + 1.8 * parseFloat(getComputedStyle(body).fontSize) > body.clientHeight;
    };
    if (over(high)) {
      while (high - low > 0.02) {
        const size = (low + high) / 2;
        if (over(size)) high = size; else low = size;
      }
      over(low);
    }
    slide.dataset.fitted = "true";
  }

  function keep(slide, first) { // what is told later is hidden, from this step on
    steps(slide).forEach((one, i) => one.classList.toggle("off", i >= first));
    slide.classList.toggle("untold", kept(slide).length > 0);
  }
  const start = (slide) => Number(!slide.querySelector(".told")); // of a list the first is there at once
  function show(to, whole) {
    at = Math.min(Math.max(to, 0), slides.length - 1);
    slides.forEach((one, i) => one.classList.toggle("now", i === at));
    const slide = slides[at];
    keep(slide, whole ? Infinity : start(slide));
    history.replaceState(null, "", `#${at + 1}`);
    fit(slide);
    tell();
  }
  function on() {
    const slide = slides[at], [next] = kept(slide);
    if (!next) return at + 1 < slides.length && show(at + 1);
    next.classList.remove("off");
    slide.classList.toggle("untold", kept(slide).length > 0);
  }
  function back() {
    const slide = slides[at], shown = steps(slide).length - kept(slide).length;
    if (shown > start(slide)) keep(slide, shown - 1);
    else if (at) show(at - 1, true);
  }

  // The notes in a window of their own: it belongs to this page, so that it needs no address.
  function tell() {
    if (!speaker || speaker.closed) return;
    const heading = (slide) => slide?.querySelector("h1").textContent ?? "the end", doc = speaker.document;
    doc.querySelector("h1").textContent = `${at + 1} of ${slides.length}: ${heading(slides[at])}`;
    doc.querySelector("#over").textContent = slides[at].querySelector(".over").textContent;
    doc.querySelector("main").innerHTML = slides[at].querySelector(".notes").innerHTML;
    doc.querySelector("#next").textContent = `Next: ${heading(slides[at + 1])}`;
  }
  function speak() {
    if (speaker && !speaker.closed) return speaker.focus();
    speaker = open("", "notes", "width=760,height=640");
    if (!speaker) return toggle();
    begun ||= Date.now();
    speaker.document.write(`<!doctype html><title>Notes</title><style>body{font:1.15rem/1.4 Georgia,serif;margin:1.5rem;color:#1b1d20;background:#fff}h1{font-size:1.3rem;margin:0}#clock{float:right;font-variant-numeric:tabular-nums}#over,#next{color:#565b61}.katex-html{display:none}</style><span id="clock"></span><h1></h1><p id="over"></p><main></main><p id="next"></p>`);
    speaker.document.close();
    speaker.addEventListener("keydown", key);
    const tick = () => { if (!speaker.closed) speaker.document.querySelector("#clock").textContent = `${Math.floor((Date.now() - begun) / 60000)} min`; };
    setInterval(tick, 1000);
    tick();
    tell();
  }
  function toggle() {
    document.body.classList.toggle("noted");
    fit(slides[at]);
  }
  function dark() {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  }

  const make = (tag, given, ...children) => {
    const node = Object.assign(document.createElement(tag), given);
    node.append(...children);
    return node;
  };
  const list = make("dialog", { ariaLabel: "All slides" }, make("ol", {}, ...slides.map((slide, i) =>
    make("li", {}, make("button", { type: "button", onclick: () => { list.close(); show(i); } }, `${i + 1} ${slide.querySelector("h1").textContent} `, make("small", {}, slide.querySelector(".over").textContent))))));
  const names = [["\u2190", "Back", back], ["\u2192", "On", on], ["N", "Notes below", toggle], ["S", "Notes in a window", speak], ["O", "All slides", () => list.showModal()], ["\u25d0", "Light or dark", dark]];
  const nav = make("nav", { ariaLabel: "Slides" }, ...names.map(([text, label, onclick]) => make("button", { type: "button", ariaLabel: label, title: label, onclick }, text)));
  document.body.append(list, nav);

  const keys = {
    ArrowRight: on, ArrowDown: on, " ": on, Enter: on, ArrowLeft: back, ArrowUp: back,
    PageDown: () => at + 1 < slides.length && show(at + 1), PageUp: () => at && show(at - 1), Home: () => show(0), End: () => show(slides.length - 1, true), n: toggle, s: speak, o: () => list.showModal(), d: dark,
    f: () => document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
    Escape: () => document.activeElement?.blur(),
  };
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || list.open) return;
    // A figure's own keys stay its own; page keys always turn, and Escape leaves the figure.
    const own = event.target.closest?.("input, select, button, textarea, [role=slider], .cl-area, a");
    if (own && !["PageDown", "PageUp", "Escape"].includes(event.key)) return;
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { event.preventDefault(); act(); }
  }
  addEventListener("keydown", key);
  addEventListener("hashchange", () => { const to = Number(location.hash.slice(1)) - 1; if (to !== at) show(to); });
  addEventListener("resize", () => fit(slides[at]));
  let idle = 0;
  addEventListener("pointermove", () => {
    document.body.classList.add("moved");
    clearTimeout(idle);
    idle = setTimeout(() => document.body.classList.remove("moved"), 1500);
  });

  // Before it is printed every slide is laid out and fitted. ?handout and ?slides do so at once.
  function all() {
    document.body.classList.remove("on", "noted");
    slides.forEach((slide) => { keep(slide, Infinity); if (!slide.dataset.fitted) fit(slide); });
  }
  addEventListener("beforeprint", all);
  addEventListener("afterprint", () => { document.body.classList.add("on"); show(at, true); });
  document.body.classList.add("on");
  const paper = location.search.slice(1);
  const ready = Promise.all([window.started, document.fonts.ready]).then(() => {
    for (const figure of document.querySelectorAll(".figure .cl-explorer:has(.cl-scene):has(.cl-plot)")) {
      figure.querySelector(".cl-controls").append(figure.querySelector(".cl-readouts"));
    }
  });
  if (paper === "handout" || paper === "slides") {
    root.dataset.print = paper;
    slides.forEach((slide) => keep(slide, Infinity));
    document.body.classList.remove("on");
    ready.then(() => { all(); root.dataset.ready = "true"; });
  } else {
    show(at);
    ready.then(() => { fit(slides[at]); root.dataset.ready = "true"; });
    // A figure that grows as it's moved is fitted again.
    const watch = new ResizeObserver(([{ target }]) => {
      const slide = target.closest("section");
      if (slide === slides[at]) fit(slide);
    });
    document.querySelectorAll(".widget-host").forEach((one) => watch.observe(one));
  }
})();
