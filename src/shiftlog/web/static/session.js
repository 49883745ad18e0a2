// A session: steps and further turns are loaded when they come into sight, new entries as they are written.
import { aim, aims, dress, jumpTo, openAround, parsed, part, refill, whileSeen } from "./dress.js";
import { startFinding } from "./finding.js";
import * as rail from "./rail.js";

const { session, base } = document.body.dataset;
const timeline = document.getElementById("timeline");
const byId = (id) => document.getElementById(id);
const loading = new WeakMap();

function once(element, work) {
  if (!loading.has(element)) loading.set(element, work().finally(() => loading.delete(element)));
  return loading.get(element);
}

async function settled(element) {
  if (element) await loading.get(element)?.catch(() => {});
}

function place(fresh, put) {
  dress(fresh);
  watch(fresh);
  put(fresh);
}

function loadSteps(details) {
  return once(details, async () => {
    if ("loaded" in details.dataset) return;
    const fresh = await part(details.dataset.steps);
    details.dataset.loaded = "";
    place(fresh, (ready) => details.querySelector(".list").replaceChildren(ready));
  });
}

function loadMore(link) {
  return once(link, async () => {
    const fresh = await part(link.href);
    place(fresh, (ready) => link.closest(".more").replaceWith(ready));
  });
}

function loadChild(details) {
  return once(details, async () => {
    if ("loaded" in details.dataset) return;
    const fresh = await part(details.dataset.child);
    details.dataset.loaded = "";
    // The ids of another session's entries would clash with ours.
    fresh.querySelectorAll("[id]").forEach((one) => one.removeAttribute("id"));
    fresh.querySelectorAll("[data-jump]").forEach((one) => one.removeAttribute("data-jump"));
    fresh.querySelectorAll("[data-next]").forEach((one) => one.removeAttribute("data-next"));
    place(fresh, (ready) => details.querySelector(".inner").replaceChildren(ready));
  });
}

const inSight = new IntersectionObserver(
  (seen) => seen.filter((one) => one.isIntersecting).forEach((one) => loadMore(one.target).catch(() => {})),
  { rootMargin: "1200px" },
);

function watch(root) {
  root.querySelectorAll("a[data-next], a[data-more-steps]").forEach((link) => inSight.observe(link));
  root.querySelectorAll("article.turn").forEach((one) => sight.observe(one));
  root.querySelectorAll("details.steps").forEach((one) => one.addEventListener("toggle", () => one.open && loadSteps(one).catch(() => {})));
  root.querySelectorAll("details.subagent").forEach((one) => one.addEventListener("toggle", () => one.open && loadChild(one).catch(() => {})));
}

async function findHash() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (id) await show(id);
}

// Shows an element of the story, which may have to be loaded first; returns it, or nothing if another page has it.
export async function show(id) {
  let found = byId(id);
  const number = /^e(\d+)$/.exec(id)?.[1];
  if (!found && number) {
    const answer = await fetch(`${base}/entries/${number}.json`);
    if (!answer.ok) return;
    const turn = (await answer.json()).entry.request_id;
    const article = turn && byId(`t-${turn}`);
    if (turn && !article) {
      const asked = new URLSearchParams(location.search);
      if (asked.get("turn") !== turn) {
        asked.set("turn", turn);
        location.assign(`${base}?${asked}#${id}`);
      }
      return;
    }
    const details = article?.querySelector("details.steps");
    if (!details) return;
    details.open = true;
    await loadSteps(details);
    for (let link = true; !byId(id) && (link = details.querySelector("a[data-more-steps]")); ) await loadMore(link);
    found = byId(id) ?? article;
  }
  const far = /^t-(.+)$/.exec(id)?.[1];
  if (!found && far && new URLSearchParams(location.search).get("turn") !== far) location.assign(`${base}?turn=${encodeURIComponent(far)}#${id}`);
  if (!found) return;
  // An entry that belongs to a step stands as an anchor before it.
  if (found.classList.contains("also")) found = stepAfter(found);
  openAround(found);
  jumpTo(found);
  return found;
}

// Back and reload return to the place: what stands at the top is kept with the entry of the history.

const TOP = 130;
const PAGES_MOST = 40;
let placeSoon = null;

function keepPlace() {
  placeSoon = null;
  const { left } = timeline.getBoundingClientRect();
  const here = document.elementFromPoint(left + 60, TOP)?.closest("#timeline .step[id], #timeline article.turn");
  const turn = here?.closest("article.turn");
  const place = turn && { at: here.id, turn: turn.id, top: here.getBoundingClientRect().top };
  if (!place && scrollY > 0) return; // between two turns: the place before is near enough
  history.replaceState({ ...history.state, place }, "");
}

async function returnToPlace() {
  const [how] = performance.getEntriesByType("navigation");
  const place = history.state?.place;
  if (!place || how?.type === "navigate" || location.hash) return;
  for (let left = PAGES_MOST; left && !byId(place.turn); left -= 1) {
    const next = timeline.querySelector(":scope > .more a[data-next]");
    if (!next) return;
    await loadMore(next);
  }
  const found = (place.at !== place.turn && (await show(place.at))) || byId(place.turn);
  const top = found.id === place.at ? place.top : TOP;
  const off = () => found.getBoundingClientRect().top - top;
  const back = () => aim(() => scrollTo({ top: scrollY + off(), behavior: "instant" }));
  await back();
  const untouched = aims();
  // At the end of what is loaded there may be too little below the place; on a narrow page the outline comes above it.
  const next = timeline.querySelector(":scope > .more a[data-next]");
  if (off() > 1 && next) await loadMore(next);
  await outlineReady;
  if (aims() === untouched) await back();
}

function stepAfter(anchor) {
  let one = anchor;
  while (one.nextElementSibling && one.classList.contains("also")) one = one.nextElementSibling;
  return one;
}

// Live

let lastSeq = Number(document.body.dataset.head);

function isComplete() {
  return !timeline.querySelector(":scope > .more a[data-next]");
}

function addLoose(fresh) {
  let last = timeline.lastElementChild;
  if (!last?.classList.contains("loose")) {
    last = document.createElement("div");
    last.className = "loose";
    timeline.append(last);
  }
  place(fresh, (ready) => last.append(ready));
}

// As many steps as are here or, while they are not, as were told of.
function countSteps(details, told) {
  const here = details.querySelectorAll(":scope > .list > .step:not(.quiet)").length;
  const count = "loaded" in details.dataset && !details.querySelector("a[data-more-steps]") ? here : told ?? here;
  details.querySelector("summary .n").textContent = String(count);
  details.querySelector("summary .word").textContent = count === 1 ? "step" : "steps";
}

function renewTurn(article, html) {
  const head = article.querySelector(".turn-head");
  const steps = head.querySelector("details.steps");
  const fresh = parsed(html);
  const next = fresh.querySelector("details.steps");
  if (steps && next) {
    next.replaceWith(steps);
  }
  if (!document.body.dataset.csrf) fresh.querySelectorAll('a[href$="/undo"]').forEach((one) => one.remove());
  dress(fresh);
  head.replaceChildren(fresh);
}

async function addStep(article, item) {
  const details = article.querySelector("details.steps");
  if (!("loaded" in details.dataset)) return;
  const list = details.querySelector(".list");
  if (list.querySelector("a[data-more-steps]")) return;
  const began = item.call_id && [...list.querySelectorAll("[data-call]")].find((one) => one.dataset.call === item.call_id);
  if (began) {
    // A result belongs to its call: what was shown from there on is looked up again.
    const fresh = await part(`${details.dataset.steps}?after=${Number(began.id.slice(1)) - 1}`);
    while (began.nextSibling) began.nextSibling.remove();
    place(fresh, (ready) => began.replaceWith(ready));
    return;
  }
  place(parsed(item.html), (ready) => list.append(ready));
}

function renewHead(html) {
  const fresh = parsed(html);
  dress(fresh);
  for (const one of ["h1", ".line", ".sums"]) document.querySelector(`.head > ${one}`)?.replaceWith(fresh.querySelector(`.head > ${one}`));
  document.title = `${document.querySelector(".head > h1").textContent} · Shiftlog`;
}

// The outline, and the walk through the errors that it knows.

let errors = [];
let atError = null;

async function loadOutline() {
  const place = byId("outline");
  const fresh = await part(place.dataset.src);
  dress(fresh);
  place.replaceChildren(fresh);
  const outlined = place.querySelector(".outlined");
  errors = outlined.dataset.errors.split(" ").filter(Boolean);
  const walk = byId("errors");
  walk.hidden = errors.length === 0;
  byId("errors-count").textContent = errors.length === 1 ? "1 error" : `${outlined.dataset.errorsTotal} errors`;
  place.querySelectorAll("a[data-axis]").forEach((link) =>
    link.addEventListener("click", (event) => {
      event.preventDefault();
      place.dataset.src = link.getAttribute("href");
      loadOutline().catch(() => {});
    }),
  );
  const here = decodeURIComponent(location.hash.slice(1));
  if (atError === null && errors.includes(here)) {
    atError = here;
    byId(here)?.classList.add("at");
  }
  markTurn();
}

let outlineReady = null;
let outlineSoon = null;

function renewOutline() {
  clearTimeout(outlineSoon);
  outlineSoon = setTimeout(() => loadOutline().catch(() => {}), 1500);
}

async function walkErrors(step) {
  await outlineReady;
  if (!errors.length) return;
  const at = atError === null ? (step > 0 ? 0 : errors.length - 1) : errors.indexOf(atError) + step;
  if (at < 0 || at >= errors.length) return;
  atError = errors[at];
  byId("errors-count").textContent = `error ${at + 1} of ${errors.length}`;
  timeline.querySelector(".at")?.classList.remove("at");
  history.replaceState(history.state, "", `#${encodeURIComponent(atError)}`);
  (await show(atError))?.classList.add("at");
}

// The turn in sight is marked in the outline.
const sight = new IntersectionObserver(() => markTurn(), { rootMargin: "-20% 0px -70% 0px" });

function markTurn() {
  const turns = [...timeline.querySelectorAll(":scope > article.turn")];
  const here = turns.findLast((one) => one.getBoundingClientRect().top < innerHeight * 0.3) ?? turns[0];
  const replay = document.querySelector(`.tabs a[href^="${base}/replay"]`);
  if (here) replay.href = `${base}/replay?turn=${encodeURIComponent(here.dataset.turn)}`;
  byId("outline").querySelectorAll("a[data-to]").forEach((link) => {
    if (here && link.dataset.to === here.id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
}

async function take(item) {
  if (item.seq <= lastSeq) return;
  lastSeq = item.seq;
  if (["command.asked", "command.decided"].includes(item.kind)) refill(byId("waits"), byId("waits").dataset.src).catch(() => {});
  document.body.dataset.head = String(lastSeq);
  if (item.head) renewHead(item.head);
  // What is being loaded may hold this entry already, or the place where it belongs.
  await settled(timeline.querySelector(":scope > .more a[data-next]"));
  const steps = item.request_id && byId(`t-${item.request_id}`)?.querySelector("details.steps");
  await settled(steps);
  await settled(steps?.querySelector("a[data-more-steps]"));
  let article = item.request_id && byId(`t-${item.request_id}`);
  if (item.turn && !article && isComplete()) {
    place(parsed(item.turn), (ready) => timeline.append(ready));
    article = byId(`t-${item.request_id}`);
  } else if (item.turn && article) {
    renewTurn(article, item.turn);
    const status = item.kind === "turn.failed" ? "failed" : item.kind === "turn.completed" ? "completed" : null;
    if (status) article.className = `turn ${status}`;
    if (status === "failed") article.dataset.error = "";
  }
  // What the head of the turn says now need not stand among its steps too.
  for (const seq of item.repeats ?? []) byId(`e${seq}`)?.remove();
  for (const [id, html] of Object.entries(item.unfinished ?? {})) if (byId(`t-${id}`)) renewTurn(byId(`t-${id}`), html);
  if (item.html && item.html.trim() && !byId(`e${item.seq}`)) {
    const running = item.command_id && [...timeline.querySelectorAll("[data-command]")].find((one) => one.dataset.command === item.command_id);
    if (running) place(parsed(item.html), (ready) => running.replaceWith(ready));
    else if (article) await addStep(article, item);
    else if (!item.request_id && isComplete()) addLoose(parsed(item.html));
  }
  const counted = article?.querySelector("details.steps");
  if (counted) countSteps(counted, item.steps);
  renewOutline();
  if (byId("follow")?.checked) scrollTo({ top: document.documentElement.scrollHeight });
}

function takeOutput(item) {
  const command = [...timeline.querySelectorAll("[data-command].running")].find((one) => one.dataset.command === item.command_id);
  const out = command?.querySelector(`[data-stream="${item.stream}"]`);
  if (!out) return;
  if (item.cursor_before === null) out.replaceChildren(parsed(item.html));
  else if (out.dataset.cursor === item.cursor_before) out.append(parsed(item.html));
  else return;
  out.dataset.cursor = item.cursor;
  if (byId("follow")?.checked) scrollTo({ top: document.documentElement.scrollHeight });
}

let queue = Promise.resolve();

function listen() {
  const mark = byId("rail")?.dataset.mark ?? "";
  const source = new EventSource(`${base}/events?after=${lastSeq}&since=${mark}`);
  source.addEventListener("sessions", (event) => {
    byId("rail").dataset.mark = JSON.parse(event.data).mark;
    rail.changed();
  });
  source.addEventListener("entry", (event) => (queue = queue.then(() => take(JSON.parse(event.data))).catch(() => {})));
  source.addEventListener("output", (event) => (queue = queue.then(() => takeOutput(JSON.parse(event.data))).catch(() => {})));
  return source;
}

async function showChain() {
  try {
    byId("chain").replaceChildren(await part(`${base}/trust`));
  } catch {
    byId("chain").textContent = "";
  }
}

function startSwitches() {
  document.querySelectorAll(".switch").forEach((one) => (one.hidden = false));
  const shown = byId("bookkeeping");
  shown.checked = localStorage.getItem("bookkeeping") === "1";
  const apply = () => document.body.classList.toggle("bookkeeping", shown.checked);
  shown.addEventListener("change", () => {
    localStorage.setItem("bookkeeping", shown.checked ? "1" : "");
    apply();
  });
  apply();
}

export function start() {
  // Kept with the entry of the history: the browser must not scroll a page whose turns are not loaded yet.
  history.scrollRestoration = "manual";
  watch(document);
  startSwitches();
  const finding = startFinding({ base, show });
  findHash().catch(() => {});
  outlineReady = loadOutline().catch(() => {});
  returnToPlace()
    .catch(() => {})
    .finally(() => addEventListener("scroll", () => (placeSoon ??= setTimeout(keepPlace, 200)), { passive: true }));
  addEventListener("pagehide", keepPlace);
  addEventListener("hashchange", () => findHash().catch(() => {}));
  whileSeen(listen);
  (window.requestIdleCallback ?? setTimeout)(showChain);
  byId("errors-next").addEventListener("click", () => walkErrors(1));
  byId("errors-previous").addEventListener("click", () => walkErrors(-1));
  return {
    more: () => timeline.querySelector("a[data-next]") && loadMore(timeline.querySelector("a[data-next]")),
    follow: () => byId("follow")?.click(),
    bookkeeping: () => byId("bookkeeping").click(),
    fold: (turn) => turn?.querySelector("details.steps")?.toggleAttribute("open"),
    next: (step) => finding.walk(step) || walkErrors(step),
  };
}
