// Search inside a session: the server names the entries that match, the page walks through them and marks the words.

const field = document.getElementById("find-text");
const count = document.getElementById("find-count");
const timeline = document.getElementById("timeline");
let matches = [];
let terms = [];
let at = -1;

function unmark() {
  timeline.querySelectorAll("mark[data-found]").forEach((mark) => {
    const parent = mark.parentNode;
    mark.replaceWith(...mark.childNodes);
    parent.normalize();
  });
}

function mark(element) {
  if (!terms.length) return;
  const pattern = new RegExp(terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ /g, "\\W+")).join("|"), "giu");
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  for (const node of nodes) {
    const found = [...node.data.matchAll(pattern)].filter((one) => one[0]).reverse();
    for (const one of found) {
      const rest = node.splitText(one.index);
      rest.splitText(one[0].length);
      const made = document.createElement("mark");
      made.dataset.found = "";
      rest.replaceWith(made);
      made.append(rest);
    }
  }
}

export function startFinding({ base, show }) {
  const walk = field.form.querySelector(".walk");

  async function look() {
    const text = field.value.trim();
    unmark();
    matches = [];
    at = -1;
    walk.hidden = !text;
    const url = new URL(location.href);
    if (text) url.searchParams.set("find", text);
    else url.searchParams.delete("find");
    history.replaceState(history.state, "", url);
    if (!text) return;
    const answer = await fetch(`${base}/find?${new URLSearchParams({ q: text })}`, { headers: { Accept: "application/json" } });
    const data = await answer.json();
    if (!answer.ok) {
      count.textContent = data.error?.message ?? "Not a search";
      return;
    }
    ({ matches, terms } = data);
    const hash = /^#e(\d+)$/.exec(location.hash)?.[1];
    at = hash ? matches.findIndex((one) => one.seq === Number(hash)) : -1;
    tell();
    if (at >= 0) await go(0);
  }

  function tell() {
    const more = matches.length === 1 ? "1 match" : `${matches.length} matches`;
    count.textContent = at < 0 ? more : `${at + 1} of ${matches.length}`;
  }

  async function go(step) {
    if (!matches.length) return false;
    at = (at + step + matches.length) % matches.length;
    if (at < 0) at = 0;
    tell();
    unmark();
    const found = await show(`e${matches[at].seq}`);
    if (found) mark(found.classList.contains("anchor") ? found.closest("article") : found);
    return true;
  }

  field.form.addEventListener("submit", (event) => {
    event.preventDefault();
    const same = field.value.trim() === new URLSearchParams(location.search).get("find") && matches.length;
    (same ? go(1) : look().then(() => at < 0 && go(1))).catch(() => {});
  });
  field.addEventListener("input", () => {
    if (!field.value) look().catch(() => {});
  });
  document.getElementById("find-next").addEventListener("click", () => go(1));
  document.getElementById("find-previous").addEventListener("click", () => go(-1));
  if (field.value) look().catch(() => {});
  return {
    walk: (step) => {
      if (!field.value.trim() || !matches.length) return false;
      go(step).catch(() => {});
      return true;
    },
  };
}
