// Keys: j and k move through the rows of a list, or from sample to sample on a sample's page; Enter opens a row, u returns to the list,
// / goes to the search field, ? shows the keys. The focus is on the link of a row, so Enter, the middle button and a screen reader work as
// usual. The keys do nothing while the user types.

const KEYS = { j: "Next row or sample", k: "Previous row or sample", Enter: "Open the row", u: "Back to the list, from a sample", "/": "Search or filter", "?": "Show these keys", Esc: "Close, or leave a field" };
const LINK = "th[scope=row] a, td a, td summary";
const shown = (element) => element.offsetParent !== null;
// if a page lists samples below other tables, the keys move through the samples
const rows = () => [...(document.getElementById("samples") ?? document).querySelectorAll("main table:not(figure table) tbody tr")].filter((row) => shown(row) && row.querySelector(LINK));

/** The row that has the focus, or had it last. */
function current(all) {
  const place = all.indexOf(document.activeElement?.closest("tr"));
  return place >= 0 ? place : all.findIndex((row) => row.classList.contains("here"));
}

function go(step) {
  if (document.querySelector(".walk")) {
    document.querySelector(`.walk a[rel=${step > 0 ? "next" : "prev"}]`)?.click();
    return;
  }
  const all = rows();
  if (!all.length) return;
  const next = all[Math.max(0, Math.min(all.length - 1, current(all) + step))];
  next.querySelector(LINK).focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("focusin", ({ target }) => {
  for (const row of document.querySelectorAll("tr.here")) row.classList.remove("here");
  target.closest?.("main tbody tr")?.classList.add("here");
});

/** The list of keys, created on first use. */
function help() {
  let box = document.getElementById("keys");
  if (!box) {
    box = document.createElement("dialog");
    box.id = "keys";
    box.setAttribute("aria-labelledby", "keys-title");
    const title = Object.assign(document.createElement("h2"), { id: "keys-title", textContent: "Keys" });
    const list = document.createElement("dl");
    for (const [key, meaning] of Object.entries(KEYS)) {
      const name = document.createElement("dt");
      name.append(Object.assign(document.createElement("kbd"), { textContent: key }));
      list.append(name, Object.assign(document.createElement("dd"), { textContent: meaning }));
    }
    const form = Object.assign(document.createElement("form"), { method: "dialog" });
    form.append(Object.assign(document.createElement("button"), { textContent: "Close" }));
    box.append(title, list, form);
    document.body.append(box);
  }
  if (!box.open) box.showModal();
}

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
  if (target.closest("input, textarea, select, [contenteditable]")) {
    if (key === "Escape" && !target.closest("dialog")) target.blur();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (key === "j" || key === "k") go(key === "j" ? 1 : -1);
  else if (key === "u" && document.querySelector(".walk a.home")) document.querySelector(".walk a.home").click();
  else if (key === "/") {
    const field = [...document.querySelectorAll("main input[type=search], main form[role=search] input:not([type=hidden])")].find(shown);
    if (!field) return;
    field.focus();
    field.select();
  } else if (key === "?") help();
  else return;
  event.preventDefault();
});
