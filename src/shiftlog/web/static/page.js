// What every page shares: local times, folding, copying, keys and the help; then what the page itself brings.
import { dress, jumpTo, openAround } from "./dress.js";

document.documentElement.classList.add("js");
dress(document);

const help = document.getElementById("help");
const helpButton = document.getElementById("help-button");
helpButton.hidden = false;
helpButton.addEventListener("click", () => help.showModal());

// What the page at hand adds to the keys, once it is loaded.
let actions = {};
let current = -1;

function stops() {
  return [...document.querySelectorAll("[data-jump]")].filter((one) => !one.closest("details:not([open])"));
}

function move(step) {
  const all = stops();
  if (!all.length) return;
  const held = all.findIndex((one) => one.contains(document.activeElement) || one === document.activeElement);
  if (held >= 0) current = held;
  current = Math.max(0, Math.min(all.length - 1, current + step));
  all.forEach((one, number) => one.classList.toggle("current", number === current));
  jumpTo(all[current]);
  if (current === all.length - 1 && step > 0) actions.more?.();
}

// Where much is folded the next error may be many pages away; nobody waits for it longer than this.
const SEARCH_MS = 30_000;
let searching = false;

async function moveError(step) {
  if (searching) return;
  searching = true;
  try {
    await findError(step, performance.now() + SEARCH_MS);
  } finally {
    searching = false;
  }
}

async function findError(step, until) {
  const at = document.querySelector("[data-error].at");
  while (performance.now() < until) {
    const all = [...document.querySelectorAll("[data-error]")];
    let next;
    if (at) {
      const place = all.indexOf(at);
      next = all[place + step];
    } else {
      next = step > 0 ? all[0] : all.at(-1);
    }
    if (next) {
      at?.classList.remove("at");
      next.classList.add("at");
      openAround(next);
      jumpTo(next);
      return;
    }
    if (step < 0 || !(await actions.unfoldNext?.(at))) return;
  }
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  n: () => moveError(1),
  p: () => moveError(-1),
  g: () => scrollTo({ top: 0 }),
  G: () => scrollTo({ top: document.documentElement.scrollHeight }),
  f: () => actions.follow?.(),
  o: () => actions.fold?.(document.querySelector("[data-jump].current")),
  "?": () => (help.open ? help.close() : help.showModal()),
  "/": () => {
    const field = document.getElementById("q");
    if (field) field.focus();
    else location.assign("/sessions#q");
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = keys[event.key];
  if (!act || (help.open && event.key !== "?")) return;
  event.preventDefault();
  act();
});
if (location.hash === "#q") document.getElementById("q")?.focus();
document.addEventListener("click", (event) => {
  document.querySelectorAll("details.menu[open]").forEach((menu) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
});

const page = document.body.dataset.page;
if (page === "session") actions = (await import("./session.js")).start();
else if (page === "sessions") actions = (await import("./sessions.js")).start();
