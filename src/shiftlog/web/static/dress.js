// Makes what the server sent at home in this browser: times of this zone, buttons that need a script, long things folded.

const time = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const dated = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const UNITS = [[31_536_000, "y"], [86_400, "d"], [3_600, "h"], [60, "m"]];

export function ago(at, now = Date.now()) {
  const seconds = (now - at) / 1000;
  const unit = UNITS.find(([size]) => seconds >= size);
  return unit ? `${Math.floor(seconds / unit[0])}${unit[1]}` : "now";
}

function agoInWords(at) {
  const now = Date.now();
  if (at > now) return ago(now, at) === "now" ? "in less than a minute" : `in ${ago(now, at)}`;
  return ago(at) === "now" ? "just now" : `${ago(at)} ago`;
}

function showTime(one) {
  const at = new Date(one.getAttribute("datetime"));
  if (Number.isNaN(at.valueOf())) return;
  if (!("dressed" in one.dataset)) {
    one.dataset.dressed = one.textContent.length > 5 ? "dated" : "time";
    one.title = full.format(at);
    if (!("ago" in one.dataset)) one.textContent = ("exact" in one.dataset ? exact : one.dataset.dressed === "dated" ? dated : time).format(at);
  }
  if ("ago" in one.dataset) one.textContent = one.dataset.ago === "words" ? agoInWords(at) : ago(at);
}

setInterval(() => document.querySelectorAll("time[data-ago]").forEach(showTime), 30_000);

export function dress(root) {
  root.querySelectorAll("time[datetime]:not([data-keep], [data-dressed])").forEach(showTime);
  for (const button of root.querySelectorAll("[data-copy], [data-copy-from]")) {
    button.hidden = false;
    if (button.dataset.ready) continue;
    button.dataset.ready = "1";
    button.addEventListener("click", () => copy(button));
  }
  for (const long of root.querySelectorAll(".long:not([data-folded])")) {
    long.dataset.folded = "";
    long.after(switchButton("unfold", "aria-expanded", ["Show all", "Show less"], (on) => long.classList.toggle("all", on)));
  }
  for (const diff of root.querySelectorAll("details.diff:not([data-dressed])")) {
    diff.dataset.dressed = "";
    const sides = (on) => diff.querySelectorAll(".lines").forEach(on ? splitLines : joinLines);
    diff.querySelector("summary").after(switchButton("plain sides", "aria-pressed", ["Side by side", "Side by side"], sides));
  }
}

// A button that is on or off, which its attribute says to a screen reader.
function switchButton(name, attribute, [off, on], set) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = name;
  button.textContent = off;
  button.setAttribute(attribute, "false");
  button.addEventListener("click", () => {
    const turned = button.getAttribute(attribute) !== "true";
    button.setAttribute(attribute, String(turned));
    button.textContent = turned ? on : off;
    set(turned);
  });
  return button;
}

// The removed and added lines that stand in a row are set beside each other; what was there before is kept for the way back.
function splitLines(lines) {
  if (lines.inline) return;
  lines.inline = [...lines.children];
  const made = [];
  let gone = [];
  let come = [];
  const pair = (left, right) => {
    const row = document.createElement("span");
    row.className = "pair";
    for (const one of [left, right]) {
      const half = one ? one.cloneNode(true) : document.createElement("span");
      half.classList.add("half");
      row.append(half);
    }
    made.push(row);
  };
  const flush = () => {
    for (let at = 0; at < Math.max(gone.length, come.length); at += 1) pair(gone[at], come[at]);
    gone = [];
    come = [];
  };
  for (const line of lines.inline) {
    if (line.classList.contains("del")) gone.push(line);
    else if (line.classList.contains("add")) come.push(line);
    else {
      flush();
      if (line.classList.contains("same")) pair(line, line);
      else made.push(line);
    }
  }
  flush();
  lines.classList.add("split");
  lines.replaceChildren(...made);
}

function joinLines(lines) {
  if (!lines.inline) return;
  lines.replaceChildren(...lines.inline);
  lines.classList.remove("split");
  lines.inline = null;
}

async function copy(button) {
  const from = button.dataset.copyFrom;
  const text = from ? document.querySelector(from).textContent : button.dataset.copy;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => (button.textContent = label), 1500);
}

export function openAround(element) {
  for (let one = element; one; one = one.parentElement) {
    if (one.tagName === "DETAILS") one.open = true;
    if (one.classList.contains("long")) one.classList.add("all");
    if (one.classList.contains("quiet")) document.body.classList.add("bookkeeping");
  }
}

const FRAMES_MOST = 30;
let aiming = 0;
for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(kind, () => (aiming += 1), { capture: true, passive: true });

// Scrolls, and again while the page is still laid out: turns out of sight have the height of a guess until they come near.
// A person who scrolls meanwhile ends that.
export async function aim(scroll) {
  const mine = (aiming += 1);
  let still = 0;
  for (let left = FRAMES_MOST; left && still < 4 && mine === aiming; left -= 1) {
    const before = scrollY;
    scroll();
    still = Math.abs(scrollY - before) < 1 ? still + 1 : 0;
    await new Promise((done) => requestAnimationFrame(done));
  }
}

// Changes with each of these scrolls, and with whatever a person does.
export const aims = () => aiming;

export function jumpTo(element) {
  const block = element.matches(".row, .result") ? "nearest" : "start";
  aim(() => element.scrollIntoView({ block, behavior: "instant" }));
  const target = element.querySelector("a[href]") ?? element;
  if (!target.matches("a")) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}

// Replaces what an element holds by a part of a page; whoever is on a key of it stays there.
export async function refill(element, address) {
  const fresh = await part(address);
  dress(fresh);
  const held = element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  element.replaceChildren(fresh);
  if (held) element.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
}

export function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

export async function part(address) {
  const url = new URL(address, location.href);
  url.hash = "";
  url.searchParams.set("part", "1");
  const answer = await fetch(url, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status} for ${url.pathname}`);
  return parsed(await answer.text());
}

export function showLive(says, on) {
  const place = document.getElementById("live");
  place.textContent = says;
  place.classList.toggle("on", on);
}

// Listens while the page is seen: a browser has six connections to a place, which tabs that nobody sees must not use up.
export function whileSeen(listen) {
  let source = null;
  function look() {
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (!source || source.readyState === EventSource.CLOSED) {
      source = listen();
      source.addEventListener("open", () => showLive("Live", true));
      source.addEventListener("error", (event) => showLive(event.target.readyState === EventSource.CLOSED ? "Not live" : "Reconnecting", false));
    }
  }
  document.addEventListener("visibilitychange", look);
  look();
}
