// The list beside every page: it keeps its filter and its place from page to page, and is looked up again when something happens.
import { dress, part, refill } from "./dress.js";

const EVERY_MS = 1500;
const IGNORED = ["q", "kind", "part"];
const rail = document.getElementById("rail");
const list = document.getElementById("list");
let waiting = false;
let last = 0;

function kept(name) {
  try {
    return sessionStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

function keep(name, value) {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // A browser that stores nothing forgets the place, no more.
  }
}

function isList() {
  return document.body.dataset.page === "sessions";
}

function question() {
  const query = new URLSearchParams(isList() ? location.search : kept("rail"));
  IGNORED.forEach((name) => query.delete(name));
  return query;
}

export function changed() {
  if (!list || waiting || question().has("cursor")) return;
  waiting = true;
  setTimeout(() => renew(), Math.max(200, EVERY_MS - (Date.now() - last)));
}

// `chips`: the filters above the list are those of the list again.
async function renew({ chips = false } = {}) {
  waiting = false;
  last = Date.now();
  const held = document.activeElement?.closest(".row")?.id;
  const unfolded = [...list.querySelectorAll("details[open]")].map((one) => one.parentElement.previousElementSibling?.id);
  try {
    const fresh = await part(`/sessions?${question()}`);
    dress(fresh);
    list.replaceChildren(...fresh.querySelector("#list").childNodes);
    if (chips) {
      rail.querySelector(".chips").replaceWith(fresh.querySelector(".chips"));
      startChips();
    }
  } catch {
    changed();
    return;
  }
  const now = document.getElementById("now");
  if (now) refill(now, "/now").catch(() => {});
  for (const id of unfolded) document.getElementById(id)?.nextElementSibling?.querySelector("details")?.setAttribute("open", "");
  if (held) document.getElementById(held)?.querySelector("a")?.focus({ preventScroll: true });
  showCurrent();
}

function showCurrent() {
  const id = document.body.dataset.session;
  if (id) document.getElementById(`s-${id}`)?.querySelector("a").setAttribute("aria-current", "page");
}

// Filters that are kept by name, in this browser.
function saved() {
  try {
    return JSON.parse(localStorage.getItem("filters") ?? "[]");
  } catch {
    return [];
  }
}

function showSaved() {
  const place = document.getElementById("saved");
  place.replaceChildren(
    ...saved().flatMap(({ name, query }) => {
      const link = document.createElement("a");
      link.className = "chip";
      link.href = `/sessions?${query}`;
      link.textContent = name;
      const drop = document.createElement("button");
      drop.type = "button";
      drop.className = "plain drop";
      drop.textContent = "×";
      drop.setAttribute("aria-label", `Forget the filter ${name}`);
      drop.addEventListener("click", () => {
        localStorage.setItem("filters", JSON.stringify(saved().filter((one) => one.query !== query)));
        showSaved();
      });
      return [link, drop];
    }),
  );
}

function offerToSave() {
  const button = document.getElementById("save-filter");
  const query = question();
  query.delete("cursor");
  if (!isList() || ![...query].length || saved().some((one) => one.query === String(query))) return;
  button.hidden = false;
  button.addEventListener("click", () => {
    const name = [...query].map(([, value]) => value).join(" ").slice(0, 40);
    localStorage.setItem("filters", JSON.stringify([...saved(), { name, query: String(query) }]));
    button.hidden = true;
    showSaved();
  });
}

export function start() {
  if (!rail) return;
  if (isList()) keep("rail", location.search.slice(1));
  else if (kept("rail")) renew({ chips: true });
  showCurrent();
  startChips();
  rail.scrollTop = Number(kept("rail-top"));
  bringIntoSight(rail.querySelector("a[aria-current=page]")?.closest(".row"));
  rail.addEventListener("scroll", () => keep("rail-top", String(rail.scrollTop)), { passive: true });
  const back = document.querySelector('.top nav a[href="/sessions"]');
  if (back && kept("rail")) back.href = `/sessions?${kept("rail")}`;
}

// By hand: where scrollIntoView went, a browser goes on with the Tab key, past the link that skips the list.
function bringIntoSight(row) {
  if (!row) return;
  const { top, bottom } = row.getBoundingClientRect();
  const frame = rail.getBoundingClientRect();
  const chips = rail.querySelector(".chips").offsetHeight;
  if (top < frame.top + chips) rail.scrollTop -= frame.top + chips - top;
  else if (bottom > frame.bottom) rail.scrollTop += bottom - frame.bottom;
}

function startChips() {
  showSaved();
  offerToSave();
  const form = rail.querySelector("form.fields");
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (!value || (name === "group" && value === "day")) event.formData.delete(name);
  });
  form.querySelectorAll("select").forEach((one) => one.addEventListener("change", () => form.requestSubmit()));
}

export function listen() {
  const source = new EventSource(`/events?since=${rail.dataset.mark}`);
  source.addEventListener("sessions", (event) => {
    rail.dataset.mark = event.lastEventId;
    changed();
  });
  return source;
}
