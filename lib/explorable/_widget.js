// What the scripts of the book's widgets share: see _widget.py.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// What the browser remembers of the questions, under names that begin so; where it may not, nothing.
const NOTES = "clusterlab: ";
function recall(note) {
  try { return localStorage.getItem(NOTES + note); } catch { return null; }
}
function remember(note, value) {
  try {
    if (value === null) localStorage.removeItem(NOTES + note);
    else localStorage.setItem(NOTES + note, value);
  } catch { /* then it is asked again */ }
}

