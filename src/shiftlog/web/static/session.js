// A session: steps and further turns are loaded when they come into sight, new entries as they are written.
import { dress, jumpTo, openAround, parsed, part, whileSeen } from "./dress.js";

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
  root.querySelectorAll("details.steps").forEach((one) => one.addEventListener("toggle", () => one.open && loadSteps(one).catch(() => {})));
  root.querySelectorAll("details.subagent").forEach((one) => one.addEventListener("toggle", () => one.open && loadChild(one).catch(() => {})));
}

async function findHash() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id) return;
  let found = byId(id);
  const number = /^e(\d+)$/.exec(id)?.[1];
  if (!found && number) {
    const answer = await fetch(`${base}/entries/${number}.json`);
    if (!answer.ok) return;
    const turn = (await answer.json()).entry.request_id;
    const article = turn && byId(`t-${turn}`);
    if (turn && !article) {
      const asked = new URLSearchParams(location.search);
      if (asked.get("turn") !== turn) location.replace(`${base}?turn=${encodeURIComponent(turn)}#${id}`);
      return;
    }
    const details = article?.querySelector("details.steps");
    if (!details) return;
    details.open = true;
    await loadSteps(details);
    for (let link = true; !byId(id) && (link = details.querySelector("a[data-more-steps]")); ) await loadMore(link);
    found = byId(id) ?? article;
  }
  if (!found) return;
  openAround(found);
  found.closest("details")?.setAttribute("open", "");
  jumpTo(found);
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

// As many steps as were told of, or as are here: commands and checkpoints are no dialog.
function countSteps(details, told) {
  const here = "loaded" in details.dataset ? details.querySelectorAll(":scope > .list > .step:not(.quiet)").length : 0;
  const count = Math.max(told, here);
  details.querySelector("summary .n").textContent = String(count);
  details.querySelector("summary .word").textContent = count === 1 ? "step" : "steps";
}

function renewTurn(article, html) {
  const head = article.querySelector(".turn-head");
  const steps = head.querySelector("details.steps");
  const fresh = parsed(html);
  const next = fresh.querySelector("details.steps");
  if (steps && next) {
    countSteps(steps, Number(next.querySelector("summary .n").textContent));
    next.replaceWith(steps);
  }
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

async function take(item) {
  if (item.seq <= lastSeq) return;
  lastSeq = item.seq;
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
  for (const [id, html] of Object.entries(item.unfinished ?? {})) if (byId(`t-${id}`)) renewTurn(byId(`t-${id}`), html);
  if (item.html && item.html.trim() && !byId(`e${item.seq}`)) {
    const running = item.command_id && [...timeline.querySelectorAll("[data-command]")].find((one) => one.dataset.command === item.command_id);
    if (running) place(parsed(item.html), (ready) => running.replaceWith(ready));
    else if (article) await addStep(article, item);
    else if (!item.request_id && isComplete()) addLoose(parsed(item.html));
  }
  const counted = "steps" in item && article?.querySelector("details.steps");
  if (counted) countSteps(counted, item.steps);
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
  const source = new EventSource(`${base}/events?after=${lastSeq}`);
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

export function start() {
  watch(document);
  findHash().catch(() => {});
  addEventListener("hashchange", () => findHash().catch(() => {}));
  whileSeen(listen);
  (window.requestIdleCallback ?? setTimeout)(showChain);
  const follow = byId("follow");
  if (follow) follow.closest("label").hidden = false;
  return {
    more: () => timeline.querySelector("a[data-next]") && loadMore(timeline.querySelector("a[data-next]")),
    follow: () => follow?.click(),
    fold: (turn) => turn?.querySelector("details.steps")?.toggleAttribute("open"),
    unfoldNext: async (from) => {
      // Steps that are not here yet, in the order of the page, then further turns.
      const all = [...timeline.querySelectorAll("details.steps:not([data-loaded]), a[data-more-steps]")];
      const next = all.find((one) => !from || from.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
      const link = next ?? timeline.querySelector("a[data-next]");
      if (!link) return false;
      await (link.matches("a") ? loadMore(link) : loadSteps(link));
      return true;
    },
  };
}
