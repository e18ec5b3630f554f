// Shared by every page. A link or form within a region that leads to the same page with another query replaces the region in place:
// htmx does that, and pushes the address. Without this script, and for every other link, the browser loads the page.

const here = (address) => address.origin === location.origin && address.pathname === location.pathname;

/** Mark what htmx may handle: a link to a part of this page, or to another page, stays a link. */
function wire(root) {
  for (const link of root.querySelectorAll(".region a[href]")) {
    if (here(link) && !link.hash && link.search !== location.search) link.setAttribute("hx-boost", "true");
  }
  for (const form of root.querySelectorAll(".region form[method=get]")) {
    if (here(new URL(form.action))) form.setAttribute("hx-boost", "true");
  }
}

wire(document);
document.addEventListener("htmx:load", ({ target }) => {
  if (target === document.body) return;
  wire(document);
  globalThis.htmx.process(target);
});

// A page without the region, such as the login page, is shown as a whole; so is an error.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, target, elt } = event.detail;
  // The user kept typing: the next answer is on its way, and this one would remove the new letters.
  const field = elt.matches("form.search") && elt.querySelector("[name=q]");
  if (field && document.contains(field) && field.value !== (new URL(xhr.responseURL).searchParams.get("q") ?? "")) return event.preventDefault();
  if (xhr.status === 200 && target.id && xhr.responseText.includes(` id="${target.id}"`)) return;
  event.preventDefault();
  if (xhr.status >= 500 && renews(event.detail.elt)) return;
  location.assign(xhr.responseURL || location.href);
});
// A part that refreshes itself waits until the server is back.
const renews = (element) => element.hasAttribute("hx-trigger") && !element.matches("form");
document.addEventListener("htmx:sendError", ({ detail }) => {
  if (!renews(detail.elt)) location.assign(detail.pathInfo.requestPath);
});
