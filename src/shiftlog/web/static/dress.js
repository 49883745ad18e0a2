// Makes what the server sent at home in this browser: times of this zone, buttons that need a script, long things folded.

const time = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const dated = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function dress(root) {
  for (const one of root.querySelectorAll("time[datetime]:not([data-keep], [data-dressed])")) {
    const at = new Date(one.getAttribute("datetime"));
    if (Number.isNaN(at.valueOf())) continue;
    one.dataset.dressed = "";
    one.title = full.format(at);
    one.textContent = (one.textContent.length > 5 ? dated : time).format(at);
  }
  for (const button of root.querySelectorAll("[data-copy], [data-copy-from]")) {
    button.hidden = false;
    if (button.dataset.ready) continue;
    button.dataset.ready = "1";
    button.addEventListener("click", () => copy(button));
  }
  for (const long of root.querySelectorAll(".long:not([data-folded])")) {
    long.dataset.folded = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "unfold";
    button.textContent = "Show all";
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const all = long.classList.toggle("all");
      button.textContent = all ? "Show less" : "Show all";
      button.setAttribute("aria-expanded", String(all));
    });
    long.after(button);
  }
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
  for (let one = element.parentElement; one; one = one.parentElement) {
    if (one.tagName === "DETAILS") one.open = true;
    if (one.classList.contains("long")) one.classList.add("all");
  }
}

export function jumpTo(element) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  element.scrollIntoView({ block: element.matches(".row, .result") ? "nearest" : "start", behavior: still ? "auto" : "instant" });
  const target = element.querySelector("a[href]") ?? element;
  if (!target.matches("a")) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}

export function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

export async function part(address) {
  const url = new URL(address, location.href);
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
