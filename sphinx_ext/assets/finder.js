// Search by the words people use: what things.js lists (see finder.py) is matched while one types, and shown by its kind.
// The arrow keys go from the field to the hits and back.
const finder = (() => {
  const KINDS = { laws: "law", terms: "term", figures: "figure", sections: "section" }, FIRST = 3; // of a kind at first
  const ENDS = 0.66; // a hit is shown that is so good beside the best
  const IDLE = new Set("a an and are at be by can do does for from get how i if in into is it its law me much my need of on or should take takes than that the to what when where which why will with you".split(" "));
  const root = document.documentElement.dataset.content_root;
  let all = null, rarity = null, waiting = [];

  // Words as they are compared: without case and accents, one spelling of -ise and of plurals.
  const word = (text) => text.replace(/z/g, "s").replace(/(?<=ch|sh|ss|x)es$/, "").replace(/(?<=..[^su'i])s$/, "").replace(/(y|ies)$/, "i");
  const words = (text) => (text.normalize("NFKD").toLowerCase().replace(/['’]s\b/g, "").match(/[a-z0-9\u0370-\u03ff]+/g) ?? []).map(word);
  // A name is compared from any of its words on, as if it were written in one: "allreduce" is in "ring all-reduce".
  const name = (text) => {
    const parts = words(text);
    return { parts, whole: parts.join(""), tails: parts.map((_, i) => parts.slice(i).join("")) };
  };
  const begins = (one, part) => one.tails.some((tail, i) => (part.length > 2 || one.parts[i].length <= part.length + 2) && tail.startsWith(part));

  function things(found) {
    const also = Object.entries(found.synonyms).map(([of, names]) => [name(of).parts.join(" "), names.map(name)]);
    all = Object.keys(KINDS).flatMap((kind) => found[kind].map(([title, about, place, ...rest], order) => {
      const names = [name(title)], spaced = ` ${names[0].parts.join(" ")} `;
      // A law has its name in Python too, and a term those of its entry.
      const own = kind === "laws" ? [] : kind === "terms" ? rest.flatMap((text) => text.split(/, | or /)) : [];
      // What a heading mentions has its other names there too; a law is not what its name mentions.
      const same = also.flatMap(([of, other]) => spaced === ` ${of} ` ? other : []);
      const mentioned = kind === "laws" || same.length ? [] : also.flatMap(([of, other]) => spaced.includes(` ${of} `) ? other : []);
      return { kind, title, about, place, rest, order, names, others: [...own.map(name), ...same], mentioned, said: name(about) };
    }));
    const met = new Map();
    for (const thing of all) {
      for (const part of new Set([...thing.names, ...thing.others, ...thing.mentioned, thing.said].flatMap((one) => one.parts))) met.set(part, (met.get(part) ?? 0) + 1);
    }
    rarity = (part) => {
      let count = 0;
      for (const [other, often] of met) if (other.startsWith(part)) count += often;
      return Math.log(1 + all.length / (1 + count));
    };
    waiting.forEach((show) => show());
    waiting = [];
  }

  // How well a name is what was asked for: the same, its start, from one of its words on, or all words somewhere in it.
  function likeness(one, asked, parts) {
    if (one.whole === asked) return 1;
    const share = 0.1 * asked.length / one.whole.length, few = asked.length < 3 && !one.parts.includes(asked) ? 0.3 : 0;
    if (one.whole.startsWith(asked)) return 0.86 + share - few;
    if (begins(one, asked)) return 0.76 + share - few;
    return parts.every((part) => begins(one, part)) ? 0.68 + share - few : 0;
  }
  // Another name counts where it is complete, and less while it is typed, or is a part of more.
  const alike = (one, asked, parts) => one.whole === asked ? 0.98 : 0.75 * likeness(one, asked, parts);

  function find(query) {
    const whole = words(query), asked = whole.join(""), busy = whole.filter((part) => !IDLE.has(part)), parts = busy.length ? busy : whole;
    if (!asked) return [];
    const weights = parts.map(rarity), sum = weights.reduce((a, b) => a + b, 0);
    const hits = all.map((thing) => {
      const { names, others, mentioned, said, kind, rest, about } = thing;
      let score = Math.max(...names.map((one) => likeness(one, asked, parts)), ...others.map((one) => alike(one, asked, parts)), ...mentioned.map((one) => 0.85 * alike(one, asked, parts)));
      // Else by its words, wherever they stand; rare ones say more.
      const by = parts.map((part) => [...names, ...others, ...mentioned].some((one) => begins(one, part)) ? 1 : begins(said, part) ? 0.6 : 0);
      const met = by.reduce((a, b, i) => a + b * weights[i], 0) / sum;
      if (by.filter(Boolean).length >= Math.min(2, parts.length) && met >= 0.4) score = Math.max(score, 0.6 * met);
      if (score && (kind === "laws" ? rest.length < 2 : kind === "sections" && about)) score -= 0.03; // taught nowhere; no page
      return { ...thing, score };
    }).filter((hit) => hit.score > 0.25);
    const best = Math.max(...hits.map((hit) => hit.score));
    return hits.filter((hit) => hit.score >= ENDS * best).sort((a, b) => b.score - a.score || a.order - b.order);
  }

  const make = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const link = (text, place) => make("a", { href: root + place, textContent: text });

  function item({ kind, title, about, place, rest }) {
    const made = make("li", {}, link(title, place));
    if (kind === "laws") made.append(" ", make("code", { textContent: rest[0] }));
    if (about) made.append(make("span", { className: "found-about", textContent: about }));
    if (kind === "laws" && rest[1]) made.append(make("span", { className: "found-about" }, "In ", link(rest[1], rest[2])));
    return made;
  }

  function group(kind, hits) {
    const list = make("ul", {}, ...hits.map(item)), made = make("section", { className: "found-kind" }, make("h2", { textContent: `${KINDS[kind]}s`.replace(/^./, (c) => c.toUpperCase()) }), list);
    const rest = [...list.children].slice(FIRST);
    if (rest.length) {
      rest.forEach((one) => { one.hidden = true; });
      const more = make("button", { type: "button", className: "found-more", textContent: `${rest.length} more ${KINDS[kind]}${rest.length > 1 ? "s" : ""}` });
      more.addEventListener("click", () => {
        rest.forEach((one) => { one.hidden = false; });
        rest[0].querySelector("a").focus();
        more.remove();
      });
      made.append(more);
    }
    return made;
  }

  // Under the form of a search field, which may stand on the page or in a dialog.
  function attach(form) {
    const field = form.querySelector("input"), count = make("p", { className: "found-count" }), hits = make("div");
    const box = make("div", { className: "found" }, count, hits), text = form.parentElement.querySelector("#search-results");
    count.setAttribute("role", "status");
    form.after(box);
    const asked = new URLSearchParams(location.search).get("q") ?? "";
    function show() {
      if (!all) { waiting.push(show); return; }
      const query = field.value.trim(), found = find(query), kinds = Object.keys(KINDS).map((kind) => [kind, found.filter((hit) => hit.kind === kind)]).filter(([, of]) => of.length);
      count.textContent = !query ? "" : kinds.map(([kind, of]) => `${of.length} ${KINDS[kind]}${of.length > 1 ? "s" : ""}`).join(", ") || "Nothing has that name.";
      if (query && (!text || query !== asked.trim())) count.textContent += " Enter searches the text.";
      hits.replaceChildren(...kinds.map(([kind, of]) => group(kind, of)));
      if (text) text.hidden = query !== asked.trim(); // what the text has is there for what was entered
      box.classList.toggle("found-some", found.length > 0);
    }
    field.addEventListener("input", show);
    form.parentElement.addEventListener("keydown", (e) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[e.key], stops = [field, ...box.querySelectorAll("li:not([hidden]) > a, .found-more")], at = stops.indexOf(document.activeElement);
      if (!step || at < 0 || e.ctrlKey || e.metaKey || e.altKey || !stops[at + step]) return;
      e.preventDefault();
      stops[at + step].focus();
    });
    if (text && !field.value) field.value = asked;
    show();
  }

  attach(document.querySelector(":not(dialog) > form.bd-search") ?? document.querySelector("form.bd-search")); // as in frame.js
  return { things, find: (query) => find(query).map(({ kind, title }) => [kind, title]) };
})();
