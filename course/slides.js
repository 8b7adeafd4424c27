// One slide at a time. Arrow keys, space, page keys, Home and End turn them; D turns light to dark.
const root = document.documentElement, slides = [...document.querySelectorAll("section")];
const places = slides.flatMap((slide, s) => [...slide.querySelectorAll(".frame")].map((frame, f) => ({ slide, frame, s, f })));
const nav = document.createElement("nav"), where = document.createElement("span");
const button = (text, label, act) => {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: text, ariaLabel: label, onclick: act });
  return made;
};
let at = Math.max(0, places.findIndex(({ s }) => s === Number(location.hash.slice(1)) - 1));

function fit() { // the largest letters with which the slide fits
  const { slide } = places[at];
  let low = 10, high = 40;
  while (high - low > 0.5) {
    const size = (low + high) / 2;
    slide.style.fontSize = `${size}px`;
    if (slide.scrollHeight > slide.clientHeight || slide.scrollWidth > slide.clientWidth) high = size;
    else low = size;
  }
  slide.style.fontSize = `${low}px`;
}
function go(to) {
  at = Math.min(Math.max(to, 0), places.length - 1);
  const { slide, frame, s, f } = places[at], frames = slide.querySelectorAll(".frame");
  slides.forEach((one) => one.classList.toggle("now", one === slide));
  frames.forEach((one) => one.classList.toggle("now", one === frame));
  where.textContent = `${s + 1} of ${slides.length}` + (frames.length > 1 ? `, step ${f + 1} of ${frames.length}` : "");
  history.replaceState(null, "", `#${s + 1}`);
  fit();
}
function dark() {
  const now = root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
}
const keys = {
  ArrowRight: () => at + 1, ArrowDown: () => at + 1, PageDown: () => at + 1, " ": () => at + 1,
  ArrowLeft: () => at - 1, ArrowUp: () => at - 1, PageUp: () => at - 1, Home: () => 0, End: () => places.length - 1,
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target.closest?.("button")) return;
  if (event.key in keys) { event.preventDefault(); go(keys[event.key]()); }
  else if (event.key === "d" || event.key === "D") dark();
});
addEventListener("resize", () => go(at));
where.setAttribute("role", "status");
nav.ariaLabel = "Slides";
nav.append(button("\u2190", "Back", () => go(at - 1)), button("\u2192", "On", () => go(at + 1)), button("\u25d0", "Light or dark", dark), where);
document.body.append(nav);
document.body.classList.add("on");
go(at);
