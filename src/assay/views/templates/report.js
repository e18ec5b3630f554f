// A report's own script: search and sort in its table, and open the evidence that a link leads to. The page is complete without it.
const parts = [...document.querySelectorAll(".part")], rows = parts.flatMap((part) => [...part.querySelectorAll("tbody tr")]);
const find = document.getElementById("find"), field = document.getElementById("q"), failed = document.getElementById("failed"), found = document.getElementById("found");
const texts = new Map(), counted = (n) => n.toLocaleString("en");
const size = parts.length ? parts[0].querySelectorAll("tbody tr").length : 0;
let order = rows, sorted = -1, down = true;
const text = (row) => texts.get(row) ?? (texts.set(row, row.textContent.toLowerCase()), texts.get(row));
function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = order.filter((row) => (!failed.checked || row.className === "x") && words.every((word) => text(row).includes(word)));
  parts.forEach((part, place) => {
    const mine = kept.slice(place * size, (place + 1) * size);
    part.querySelector("tbody").replaceChildren(...mine);
    part.hidden = place > 0 && mine.length === 0;
    part.querySelector("caption").textContent = mine.length ? `Samples ${counted(place * size + 1)} to ${counted(place * size + mine.length)} of ${counted(kept.length)}` : "No sample";
  });
  found.textContent = kept.length === rows.length ? "" : `${counted(kept.length)} of ${counted(rows.length)} shown`;
}
const value = (row, column) => { const cell = row.cells[column]?.textContent.trim() ?? ""; const number = parseFloat(cell.replace(/^[^0-9.–-]+/, "")); return /\d$/.test(cell) && !isNaN(number) ? number : cell; };
function compare(one, other) { return typeof one === "number" && typeof other === "number" ? one - other : typeof one === typeof other ? one.localeCompare(other) : typeof one === "number" ? 1 : -1; }
function sort(column) {
  down = sorted === column && !down; sorted = column;
  const keyed = rows.map((row) => [value(row, column), row]);
  keyed.sort((one, other) => (down ? -1 : 1) * compare(one[0], other[0]));
  order = keyed.map((one) => one[1]);
  for (const part of parts) for (const [place, head] of [...part.querySelectorAll("thead th")].entries()) { if (place === column) head.setAttribute("aria-sort", down ? "descending" : "ascending"); else head.removeAttribute("aria-sort"); }
  show();
}
for (const part of parts) for (const [place, head] of [...part.querySelectorAll("thead th")].entries()) {
  const button = document.createElement("button"); button.className = "sort"; button.append(...head.childNodes); head.append(button);
  button.addEventListener("click", () => sort(place));
}
function reveal() { const target = /^#s-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1)); if (target) { target.closest("details").open = true; target.scrollIntoView(); } }
if (find) { find.hidden = false; field.addEventListener("input", show); failed.addEventListener("change", show); }
addEventListener("hashchange", reveal); reveal();
