// A run in progress: continues where the page ends, with the stream of events. Text from the stream becomes text nodes, never markup.
// Every event has an id; after a lost connection the browser sends the last one it saw, and the stream resumes from there.

const root = document.getElementById("live");
const SHOWN = 300;
const SIGNS = { success: ["✓", "good"], passed: ["✓", "good"], running: ["…", "busy"], evaluating: ["…", "busy"], skipped: ["–", "off"], cancelled: ["–", "off"] };
const STATES = { running: "Running", evaluating: "Finished; being graded", passed: "Finished and graded", failed: "Failed with an error; it has no grade" };

/** An element with text or elements in it. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A verdict as an icon and words. */
function verdict(word, text) {
  const [sign, kind] = SIGNS[word] ?? ["✗", "bad"];
  return element("span", { class: kind }, element("span", { class: "sign", "aria-hidden": "true" }, sign), ` ${text ?? word}`);
}

const absent = (text) => element("span", { class: "absent" }, text);
const body = () => root.querySelector("#steps tbody");
const heads = [...root.querySelectorAll("#steps thead th")].map((head) => [head.textContent, head.className]);

/** The row of a step, created if it doesn't exist yet. */
function row(step) {
  const name = `${step.index}/${step.name}`;
  const known = [...body().rows].find((one) => one.dataset.step === name || (!one.dataset.step && one.cells[0].textContent === step.name && one.cells[2].textContent.includes("running")));
  if (known) return known;
  const made = element("tr", { role: "row" }, element("th", { scope: "row", role: "rowheader" }, step.name));
  made.dataset.step = name;
  body().append(made);
  while (body().rows.length > SHOWN) body().rows[0].remove();
  return made;
}

/** Fill a row with the data of its step. */
function fill(step, cells) {
  const line = row(step);
  line.replaceChildren(line.cells[0], ...cells.map((cell, place) => element("td", { role: "cell", class: heads[place + 1][1], "data-label": heads[place + 1][0] }, cell)));
}

function state(word) {
  root.querySelector("#state").replaceChildren(verdict(word, STATES[word]));
}

function evaluation(...parts) {
  root.querySelector("#evaluation").replaceChildren(root.querySelector("#evaluation h2"), ...parts);
}

const told = {
  workflow_start() {
    body().replaceChildren();
    state("running");
  },
  step_start({ step }) {
    fill(step, [step.agent ?? absent("none"), verdict("running"), "", "", ""]);
  },
  step_end({ step, tool_calls: calls }) {
    const invalid = calls.filter((call) => call.valid === false).length;
    const duration = step.duration_ms ?? absent("not reported");
    fill(step, [step.agent ?? absent("none"), verdict(step.status), duration, `${calls.length}${invalid ? `, ${invalid} invalid` : ""}`, step.error ?? absent("none")]);
  },
  workflow_end() {
    state("evaluating");
  },
  evaluation_start() {
    state("evaluating");
    evaluation(element("p", {}, verdict("evaluating", "Being graded …")));
  },
  evaluation_complete(grade) {
    state("passed");
    const known = ["A", "B", "C", "D", "F"].includes(grade.grade) ? grade.grade : "other";
    const letter = element("span", { class: "letter large" }, element("b", { class: `grade-${known}` }, grade.grade), " ", element("small", {}, grade.policy ?? "policy not stated"));
    const score = typeof grade.weighted_score === "number" ? grade.weighted_score.toFixed(2) : "no score";
    evaluation(
      element("div", { class: "top" }, letter, element("p", { class: "verdict" }, grade.explanation?.[0] ?? "No reason given.")),
      element("dl", { class: "facts" }, element("div", {}, element("dt", {}, "Score"), element("dd", {}, score))),
      element("p", {}, element("a", { href: root.dataset.runs + encodeURIComponent(grade.digest) }, "The whole grade")),
    );
    stop("The stream has ended: the run is graded.");
  },
  error(fault) {
    state("failed");
    evaluation(element("p", {}, verdict("failed", fault.message ?? "no reason given")));
    stop("The stream has ended: the run has no grade.");
  },
};

const connection = root.querySelector("#connection");
const stream = new EventSource(`${root.dataset.stream}?last_event_id=${encodeURIComponent(root.dataset.seen)}`);

function stop(text) {
  stream.close();
  connection.textContent = text;
}

stream.addEventListener("open", () => {
  connection.textContent = "Connected. New events appear as they arrive.";
});
for (const [kind, tell] of Object.entries(told)) {
  stream.addEventListener(kind, (event) => {
    if (typeof event.data !== "string") {
      // not an event of the run, but of the browser: the connection was lost
      connection.textContent = stream.readyState === EventSource.CLOSED ? "The connection was refused. Load the page again." : "The connection broke; trying again …";
      return;
    }
    root.querySelector("#count").textContent = Number(event.lastEventId).toLocaleString("en");
    tell(JSON.parse(event.data));
  });
}
