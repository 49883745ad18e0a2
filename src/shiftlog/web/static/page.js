// What every page shares: local times, folding, copying, keys and the help; then what the page itself brings.
import { dress, jumpTo, whileSeen } from "./dress.js";
import * as palette from "./palette.js";
import * as rail from "./rail.js";

document.documentElement.classList.add("js");
dress(document);

rail.start();

const help = document.getElementById("help");
const helpButton = document.getElementById("help-button");
if (helpButton) {
  helpButton.hidden = false;
  helpButton.addEventListener("click", () => help.showModal());
}

// What the page at hand adds to the keys, once it is loaded.
let actions = {};
let current = -1;

// The story where there is one, else what was found, else the list.
function stops() {
  const shown = [...document.querySelectorAll("[data-jump]")].filter((one) => one.checkVisibility());
  const inMain = shown.filter((one) => one.closest("main"));
  return inMain.length ? inMain : shown;
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

const keys = {
  j: () => move(1),
  k: () => move(-1),
  n: () => actions.next?.(1),
  p: () => actions.next?.(-1),
  b: () => actions.bookkeeping?.(),
  g: () => scrollTo({ top: 0 }),
  G: () => scrollTo({ top: document.documentElement.scrollHeight }),
  f: () => actions.follow?.(),
  o: () => actions.fold?.(document.querySelector("[data-jump].current")),
  "?": () => (help.open ? help.close() : help.showModal()),
  "/": () => {
    const field = document.getElementById("find-text") ?? document.querySelector(".finder input[type=search]") ?? document.getElementById("q");
    if (field) field.focus();
    else location.assign("/sessions#q");
  },
};

const started = startPage();

const paletteButton = document.getElementById("palette-button");
if (paletteButton) {
  paletteButton.hidden = false;
  paletteButton.addEventListener("click", palette.open);
}

document.addEventListener("keydown", (event) => {
  if (paletteButton && (event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    palette.open();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape" && !event.target.closest("dialog")) {
      // The browser would also empty a search field, and with it the matches to walk.
      event.preventDefault();
      event.target.blur();
    }
    return;
  }
  const act = keys[event.key];
  if (!act || (help.open && event.key !== "?")) return;
  event.preventDefault();
  started.then(act, act); // a key that is pressed before the page's own script is there counts all the same
});
if (location.hash === "#q") document.getElementById("q")?.focus();
document.addEventListener("click", (event) => {
  document.querySelectorAll("details.menu[open]").forEach((menu) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
});

// What destroys or ends something asks first; the pages of their own ask by themselves.
document.addEventListener("submit", (event) => {
  const sure = event.target.dataset.sure;
  if (sure && !confirm(sure)) event.preventDefault();
});

(window.requestIdleCallback ?? setTimeout)(async () => (await import("./notify.js")).start());

async function startPage() {
  const page = document.body.dataset.page;
  if (page === "session") actions = (await import("./session.js")).start();
  else if (page === "replay") (await import("./replay.js")).start();
  else if (document.getElementById("rail")) whileSeen(rail.listen);
}
