// The labelling page: keyboard shortcuts, and a draft of what is not saved yet, kept in this tab. The form works without it.

const form = document.getElementById("label");

/** The chosen and typed values, by field. */
const filled = () => Object.fromEntries([...new FormData(form)].filter(([name, value]) => name !== "item" && value !== ""));

/** The draft of an item in this tab's storage; a browser may refuse one. */
const draft = {
  read: (name) => {
    try {
      return JSON.parse(sessionStorage.getItem(`assay label ${name}`) ?? "null");
    } catch {
      return null;
    }
  },
  keep: (name, value) => {
    try {
      sessionStorage.setItem(`assay label ${name}`, JSON.stringify(value));
    } catch {
      // no draft is kept; the server has everything that was saved
    }
  },
  drop: (name) => {
    try {
      sessionStorage.removeItem(`assay label ${name}`);
    } catch {
      // there is no draft
    }
  },
};

if (form) {
  const name = form.dataset.draft;
  if (form.dataset.saved) draft.drop(form.dataset.saved);
  const known = draft.read(name);
  if (known) {
    for (const [field, value] of Object.entries(known)) {
      for (const input of form.querySelectorAll("input, textarea")) {
        if (input.name !== field || input.name === "item") continue;
        if (input.type === "radio") input.checked = input.value === value;
        else input.value = value;
      }
    }
  }
  form.addEventListener("input", () => draft.keep(name, filled()));
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
  window.addEventListener("pageshow", () => delete form.dataset.sent);
}

/** The criterion that a digit applies to: the one in focus, else the first without a score. */
function criterion() {
  const groups = [...form.querySelectorAll("fieldset")];
  return document.activeElement?.closest("fieldset") ?? groups.find((one) => !one.querySelector("input:checked")) ?? groups[0];
}

/** Choose by a digit, and move to the next criterion without a score. */
function choose(key) {
  const group = criterion();
  const input = [...group.querySelectorAll("input[type=radio]")].find((one) => one.dataset.key === key);
  if (!input) return false;
  input.checked = true;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  const open = [...form.querySelectorAll("fieldset")].find((one) => !one.querySelector("input:checked"));
  (open?.querySelector("input") ?? form.querySelector("button")).focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.key === "Enter" && form) {
    form.requestSubmit();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("textarea, input[type=text], select")) return;
  if (event.key === "j" || event.key === "k") {
    const way = document.querySelector(`a[data-key="${event.key}"]`);
    if (way) way.click();
  } else if (form && event.key >= "0" && event.key <= "9") {
    if (!choose(event.key)) return;
  } else if (form && event.key === "c") {
    document.getElementById("comment").focus();
  } else if (form && event.key === "Enter" && !event.target.closest("a, button, summary")) {
    form.requestSubmit();
  } else {
    return;
  }
  event.preventDefault();
});
