// The catalogue's tables: sort by a heading, filter by words, and set two accelerators side by side. All of it is on the page.
(() => {
  const make = (tag, properties = {}, ...children) => { const one = Object.assign(document.createElement(tag), properties); one.append(...children); return one; };
  const text = (cell) => cell.textContent.trim();

  // A number sorts as one, what is missing comes last whichever way, and all else as people sort words.
  function compare(a, b, down) {
    const empty = [a, b].map((cell) => text(cell) === "");
    if (empty[0] || empty[1]) return empty[0] - empty[1];
    const numbers = [a, b].map((cell) => parseFloat((cell.querySelector("[data-value]") ?? cell).dataset.value));
    const order = numbers.every((n) => !isNaN(n)) ? numbers[0] - numbers[1] : text(a).localeCompare(text(b), "en", { numeric: true });
    return down ? -order : order;
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, i) => {
      const button = make("button", { type: "button", textContent: text(head) });
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        body.append(...[...body.rows].sort((a, b) => compare(a.cells[i], b.cells[i], down)));
      });
    });
  }

  // Every word that is typed must stand in a row; what is typed in quotes, as it is. A table without a row left hides its section.
  function filterable(box, boxes = [box]) {
    const said = make("output"), whole = box === boxes[0];
    const field = make("input", { type: "search", placeholder: whole ? "gb200 measured" : "nsys allreduce" });
    const label = make("label", { className: "filter" }, "Filter ", field, " ", said);
    let held; // A table may have 1,500 rows, and few who read the page ask for one.
    const filter = () => {
      held ??= new Map(boxes.flatMap((one) => [...one.querySelectorAll("tbody tr")]).map((row) => [row, [...row.cells].map(text).join(" ").toLowerCase()]));
      const rows = [...held.keys()];
      const asked = [...field.value.toLowerCase().matchAll(/"([^"]+)"|(\S+)/g)].map((word) => word[1] ?? word[2]);
      rows.forEach((row) => { row.hidden = !asked.every((word) => held.get(row).includes(word)); });
      if (!whole) for (const one of boxes) one.closest("section").hidden = [...one.querySelectorAll("tbody tr")].every((row) => row.hidden);
      said.textContent = asked.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
    };
    field.addEventListener("input", filter);
    (box.querySelector(":scope > .filtered") ?? box).prepend(label);
    return (words) => { field.value = words; filter(); field.focus(); };
  }

  // One field for all tables of a page that has a place for it.
  const boxes = [...document.querySelectorAll(".catalogue:not(.filters-all)")], all = document.querySelector(".filters-all");
  const filterAll = all && filterable(all, boxes);
  for (const box of boxes) {
    const details = box.closest("details");
    let filter;
    const start = () => {
      if (filter) return;
      sortable(box.querySelector("table"));
      filter = filterAll ?? filterable(box);
    };
    if (!details) { start(); continue; }
    // What is folded has no need of a control yet, and one in it would make the browser lay out its 1,500 rows.
    details.addEventListener("toggle", start, { once: true });
    // The name of a record opens what its numbers rest on.
    for (const name of details.previousElementSibling.querySelectorAll("tbody th")) {
      const button = make("button", { type: "button", textContent: text(name), title: "Show what these numbers rest on" });
      button.addEventListener("click", () => { details.open = true; start(); filter(`"${button.textContent}"`); });
      name.replaceChildren(button);
    }
  }

  for (const box of document.querySelectorAll(".side-by-side")) {
    const table = box.querySelector("table"), heads = table.tHead.rows[0].cells;
    const facts = [...document.querySelectorAll('[data-name="facts-accelerator"] tbody tr')];
    const choose = [1, 2].map((i) => {
      const select = make("select", {}, ...box.dataset.options.split(",").map((name) => make("option", { textContent: name })));
      select.setAttribute("aria-label", i === 1 ? "First accelerator" : "Second accelerator");
      select.value = text(heads[i]);
      heads[i].replaceChildren(select);
      select.addEventListener("change", draw);
      return select;
    });
    function draw() {
      const both = choose.map((select) => new Map(facts.filter((row) => row.dataset.record === select.value).map((row) => [row.dataset.field, row])));
      const fields = new Map(facts.map((row) => [row.dataset.field, text(row.cells[1])]));
      const rows = [...fields].filter(([field]) => both.some((one) => one.has(field))).map(([field, what]) => {
        const cells = both.map((one) => one.get(field)?.cells[2]);
        const [a, b] = cells.map((cell) => parseFloat(cell?.dataset.value));
        const times = field !== "year" && a && b ? String(Number((b / a).toPrecision(3))) : "";
        const row = make("tr", {}, make("th", { scope: "row", textContent: what }), ...cells.map((cell) => make("td", { textContent: cell ? text(cell) : "" })), make("td", { textContent: times }));
        [...row.cells].forEach((cell, i) => { cell.dataset.head = i ? (i === 3 ? "Times" : choose[i - 1].value) : ""; });
        return row;
      });
      table.tBodies[0].replaceChildren(...rows);
    }
  }
})();
