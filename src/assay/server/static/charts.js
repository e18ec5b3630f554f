// Draws charts in the browser, over the picture that the server drew: at full width, with the numbers of the mark under the pointer, and with
// zoom if an axis allows it. Vega loads with the first chart that comes near the view. It uses its interpreter, so no code is made from text.
// If anything fails, the picture stays.

const NEAR = "300px";
const WHEEL = { type: "interval", encodings: ["x"], zoom: "wheel![event.shiftKey]" };
let loaded;

/** Load Vega's files one after the other: each needs the one before. */
function load() {
  const addresses = document.querySelector("meta[name=vega]").content.split(" ");
  const one = (address) =>
    new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error(`cannot load ${address}`)));
      script.src = address;
      document.head.append(script);
    });
  loaded ??= addresses.reduce((before, address) => before.then(() => one(address)), Promise.resolve());
  return loaded;
}

const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;

/** The tooltip of a mark: its name, and its numbers as in the table. */
function tipLines(datum) {
  const why = datum.word && datum.why ? `${datum.word}: ${datum.why}` : datum.word;
  return [datum.name, datum.note ?? why ?? datum.axis].filter(Boolean);
}

function hover(_handler, event, item, value) {
  const lines = value && item?.datum ? tipLines(item.datum) : [];
  tip.hidden = lines.length === 0;
  if (tip.hidden) return;
  tip.replaceChildren(...lines.map((line, place) => Object.assign(document.createElement(place ? "span" : "b"), { textContent: line })));
  document.body.append(tip);
  const { innerWidth } = window;
  tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 10)}px`;
}

const wider = ([low, high]) => [low - (high - low) / 30, high + (high - low) / 30];

/** The layer whose axis can be zoomed: over time, or points on two scales. */
function zoomed(spec) {
  const layer = spec.layer?.find(({ mark, encoding }) => encoding?.x?.type === "temporal" || (mark?.type === "point" && encoding?.x?.field && encoding.x.type === "quantitative" && encoding?.y?.type === "quantitative"));
  if (!layer) return false;
  const both = layer.encoding.x.type !== "temporal";
  layer.params = [{ name: "zoom", select: { ...WHEEL, encodings: both ? ["x", "y"] : ["x"] }, bind: "scales" }];
  for (const other of spec.layer) {
    // a mark on the edge of a scale would be cut in half
    for (const { scale } of [other.encoding?.x ?? {}, other.encoding?.y ?? {}]) if (typeof scale?.domain?.[0] === "number") scale.domain = wider(scale.domain);
    other.mark = { ...(typeof other.mark === "string" ? { type: other.mark } : other.mark), clip: other.mark.type !== "text" };
  }
  return true;
}

async function draw(picture) {
  const answer = await fetch(picture.dataset.chart, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${picture.dataset.chart}: ${answer.status}`);
  const spec = await answer.json();
  await load();
  const { vega, vegaLite } = globalThis;
  const zooms = zoomed(spec);
  const config = { ...spec.config, mark: { tooltip: { content: "data" } }, font: getComputedStyle(document.body).fontFamily };
  const compiled = vegaLite.compile({ ...spec, config }).spec;
  const made = document.createElement("div");
  made.className = "drawn";
  made.setAttribute("aria-hidden", "true"); // its sentence and its table have the same content
  const view = new vega.View(vega.parse(compiled, null, { ast: true }), { expr: vega.expressionInterpreter, renderer: "svg", hover: false, tooltip: hover });
  view.loader({ load: () => Promise.reject(new Error("charts load nothing")) });
  picture.append(made);
  try {
    await view.initialize(made).hover().runAsync();
    if (typeof spec.width === "number") {
      const most = spec.width === spec.height ? spec.width : Infinity; // two axes on one scale stay square
      await fit(view, made, most);
      new ResizeObserver(() => fit(view, made, most)).observe(picture);
    }
  } catch (error) {
    made.remove();
    throw error;
  }
  picture.querySelector("img").hidden = true;
  if (zooms) picture.append(Object.assign(document.createElement("p"), { className: "hint zoom", textContent: "Drag to move, Shift and the wheel to zoom, double-click to reset." }));
}

/** As wide as the page has room for, but wide enough to be readable. */
async function fit(view, made, most) {
  const svg = made.querySelector("svg");
  const rest = svg.getBoundingClientRect().width - view.width();
  const wanted = Math.min(most, Math.max(160, Math.floor(made.clientWidth - rest)));
  if (Math.abs(wanted - view.width()) > 1) await view.width(wanted).runAsync();
}

const seen = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      draw(target).catch((error) => console.warn(`The chart stays a picture: ${error.message}`));
    }
  },
  { rootMargin: NEAR },
);
const watched = new WeakSet();
function watch(root) {
  for (const picture of root.querySelectorAll(".picture[data-chart]")) {
    if (!watched.has(picture)) seen.observe(picture);
    watched.add(picture);
  }
}
watch(document);
document.addEventListener("htmx:load", ({ target }) => watch(target));
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true, capture: true });
