// Replay of a session: scenes are loaded one after the other, and their steps appear as they once did.
import { dress, part, whileSeen } from "./dress.js";
import * as rail from "./rail.js";

const PER_SCENE = 10_000;
const GAP_MS = 2_000;
const LEAST_MS = 350;
const TYPED_MS = 35;
const OUTPUT_MS = [400, 6_000];
const TICK_MS = 40;
const STEPS_MOST = 3_000;

const { base } = document.body.dataset;
const byId = (id) => document.getElementById(id);
const stage = byId("stage");
const scrub = byId("scrub");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const loaded = new Map();

let scenes = [];
let scene = 0;
let frame = 0;
let frames = [];
let playing = false;
// Each move takes a number; whatever waited for an earlier one gives up.
let move = 0;

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const speed = () => Number(byId("speed").value);
const moments = (step) => step.dataset.ms.split(" ").map(Number);

function address(one) {
  const query = one.request_id ? { turn: one.request_id } : { from: one.from_seq, to: one.to_seq };
  return `${base}/replay?${new URLSearchParams(query)}`;
}

async function read(number) {
  const box = document.createElement("div");
  box.append(await part(address(scenes[number])));
  for (let rest = box.querySelector("a[data-rest]"); rest; rest = box.querySelector("a[data-rest]")) {
    if (box.childElementCount > STEPS_MOST) break;
    rest.replaceWith(await part(rest.href));
  }
  dress(box);
  return box;
}

// The scene at hand and its neighbours are kept; a long session must not fill the browser.
function fetched(number) {
  if (!loaded.has(number)) loaded.set(number, read(number).catch((error) => (loaded.delete(number), Promise.reject(error))));
  for (const known of loaded.keys()) if (Math.abs(known - number) > 2) loaded.delete(known);
  return loaded.get(number);
}

async function enter(number, at) {
  const mine = (move += 1);
  const box = await fetched(number);
  if (mine !== move) return false;
  scene = number;
  frames = [...box.children].filter((one) => one.matches(".step[data-ms]:not(.quiet)"));
  stage.replaceChildren(box);
  show(Math.min(at < 0 ? frames.length + at : at, frames.length - 1));
  if (number + 1 < scenes.length) fetched(number + 1).catch(() => {});
  const url = new URL(location.href);
  const { request_id } = scenes[number];
  if (request_id) url.searchParams.set("turn", request_id);
  else url.searchParams.delete("turn");
  history.replaceState(history.state, "", url);
  return true;
}

function show(number) {
  frame = Math.max(0, number);
  frames.forEach((one, place) => {
    one.hidden = place > frame;
    one.classList.toggle("now", place === frame);
    if (place !== frame) reveal(one, 1);
  });
  tell();
  frames[frame]?.scrollIntoView({ block: "nearest", behavior: "instant" });
}

function tell() {
  const share = frames.length > 1 ? frame / (frames.length - 1) : 0;
  scrub.value = String(scene * PER_SCENE + Math.min(PER_SCENE - 1, Math.round(share * (PER_SCENE - 1))));
  const at = frames[frame] && new Date(moments(frames[frame])[0]);
  const clock = at ? at.toLocaleTimeString(undefined, { timeStyle: "medium" }) : "";
  const says = `${scenes[scene].title} · step ${frame + 1} of ${Math.max(1, frames.length)}${clock && ` · ${clock}`}`;
  scrub.setAttribute("aria-valuetext", says);
  // While it plays, a screen reader is left in peace; the place is read again when it stops.
  byId("place").setAttribute("aria-live", playing ? "off" : "polite");
  byId("place").textContent = says;
}

// Terminals: what is typed and what is printed grows, with its colours, by the letters of its text nodes.

function letters(element) {
  if (!element.letters) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    element.letters = [];
    while (walker.nextNode()) element.letters.push([walker.currentNode, walker.currentNode.data]);
  }
  return element.letters;
}

function cut(element, share) {
  if (share >= 1 && !element.letters) return;
  const all = letters(element);
  let left = share >= 1 ? Infinity : Math.floor(share * all.reduce((sum, [, text]) => sum + text.length, 0));
  for (const [node, text] of all) {
    const shown = text.slice(0, Math.max(0, left));
    if (node.data !== shown) node.data = shown;
    left -= text.length;
  }
}

function reveal(step, share) {
  step.querySelectorAll(":scope > .term > .prompt, :scope > .term .out").forEach((one) => cut(one, share));
}

async function grow(element, lasts, mine) {
  const began = performance.now();
  while (mine === move && playing) {
    const share = (performance.now() - began) * speed() / lasts;
    cut(element, share);
    if (share >= 1) return;
    element.lastElementChild?.scrollIntoView({ block: "nearest", behavior: "instant" });
    await pause(TICK_MS);
  }
  cut(element, 1);
}

async function act(step, mine) {
  const prompt = step.querySelector(":scope > .term > .prompt");
  if (!prompt || calm.matches) return;
  const outputs = [...step.querySelectorAll(":scope > .term .out")];
  outputs.forEach((one) => cut(one, 0));
  await grow(prompt, Math.min(2_500, prompt.textContent.length * TYPED_MS), mine);
  const [from, to] = moments(step);
  const lasts = Math.min(OUTPUT_MS[1], Math.max(OUTPUT_MS[0], to - from));
  for (const one of outputs) await grow(one, lasts / outputs.length, mine);
}

function gap() {
  const next = frames[frame + 1];
  if (!next) return GAP_MS;
  const ends = frames[frame].matches(".command") ? moments(frames[frame])[1] : moments(frames[frame])[0];
  return Math.min(GAP_MS, Math.max(LEAST_MS, moments(next)[0] - ends));
}

async function play() {
  const atEnd = scene === scenes.length - 1 && frame >= frames.length - 1;
  setPlaying(true);
  if (atEnd && !(await enter(0, 0))) return;
  let mine = (move += 1);
  while (playing && mine === move) {
    if (frames[frame]) await act(frames[frame], mine);
    if (mine !== move || !playing) return;
    await pause(gap() / speed());
    if (mine !== move || !playing) return;
    if (frame + 1 < frames.length) show(frame + 1);
    else if (scene + 1 < scenes.length) {
      if (!(await enter(scene + 1, 0))) return;
      mine = move;
    } else setPlaying(false);
  }
}

function setPlaying(on) {
  playing = on;
  byId("play").textContent = on ? "Pause" : "Play";
  if (!on) move += 1;
  if (frames.length) {
    if (!on) reveal(frames[frame], 1);
    tell();
  }
}

function toggle() {
  if (playing) setPlaying(false);
  else play().catch(() => setPlaying(false));
}

async function go(step) {
  setPlaying(false);
  const next = frame + step;
  if (next >= 0 && next < frames.length) show(next);
  else if (scene + step >= 0 && scene + step < scenes.length) await enter(scene + step, step > 0 ? 0 : -1);
}

async function leap(step) {
  setPlaying(false);
  // Back first goes to the beginning of the turn at hand, as players do.
  const to = step < 0 && frame > 0 ? scene : scene + step;
  if (to >= 0 && to < scenes.length) await enter(to, 0);
}

function faster(step) {
  const choice = byId("speed");
  choice.selectedIndex = Math.max(0, Math.min(choice.options.length - 1, choice.selectedIndex + step));
}

async function scrubbed() {
  // Read first: whatever tells the place moves the handle.
  const value = Number(scrub.value);
  setPlaying(false);
  const number = Math.min(scenes.length - 1, Math.floor(value / PER_SCENE));
  const share = (value % PER_SCENE) / (PER_SCENE - 1);
  if (number !== scene && !(await enter(number, 0))) return;
  show(Math.round(share * Math.max(0, frames.length - 1)));
}

const keys = {
  " ": toggle,
  ArrowLeft: (event) => (event.shiftKey ? leap(-1) : go(-1)),
  ArrowRight: (event) => (event.shiftKey ? leap(1) : go(1)),
  "<": () => faster(-1),
  ">": () => faster(1),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
  const own = event.target.closest("button, summary, a, select, textarea, input:not(#scrub)");
  if (own && (event.key === " " || own.matches("select, textarea, input"))) return;
  if (document.querySelector("dialog[open]")) return;
  event.preventDefault();
  Promise.resolve(keys[event.key](event)).catch(() => {});
}

export async function start() {
  whileSeen(rail.listen);
  if (!byId("player")) return;
  const answer = await fetch(`${base}/replay.json`, { headers: { Accept: "application/json" } });
  ({ scenes } = await answer.json());
  scrub.max = String(scenes.length * PER_SCENE - 1);
  byId("player").hidden = false;
  byId("play").addEventListener("click", toggle);
  byId("step-back").addEventListener("click", () => go(-1).catch(() => {}));
  byId("step-on").addEventListener("click", () => go(1).catch(() => {}));
  scrub.addEventListener("input", () => scrubbed().catch(() => {}));
  document.addEventListener("keydown", pressed);
  document.addEventListener("visibilitychange", () => document.hidden && playing && setPlaying(false));
  const asked = new URLSearchParams(location.search).get("turn");
  await enter(Math.max(0, scenes.findIndex((one) => asked && one.request_id === asked)), 0);
}
