// Notifications of the browser, if its person wants them: when something waits for an answer, and when a turn fails.
// One page of the browser listens for all, also while no one looks at it.

const KEPT = 200;
const box = document.getElementById("notify");

const isWanted = () => localStorage.getItem("notify") === "1" && Notification.permission === "granted";
const told = () => JSON.parse(localStorage.getItem("notified") ?? "[]");

async function news() {
  const answer = await fetch("/now.json", { headers: { Accept: "application/json" } });
  if (!answer.ok) return [];
  const { questions, titles, failed } = (await answer.json()).overview;
  return [
    ...questions.map((one) => ({
      key: `waits ${one.approval_id ?? one.asked_at}`,
      title: `Waits for you: ${titles[one.session_id] ?? one.session_id}`,
      body: one.command ?? one.prompt ?? "",
      href: "/",
    })),
    ...failed.map((one) => ({
      key: `failed ${one.session_id} ${one.request_id}`,
      title: `Failed: ${one.title || one.session_title}`,
      body: one.note ?? "",
      href: `/sessions/${encodeURIComponent(one.session_id)}?turn=${encodeURIComponent(one.request_id)}#t-${one.request_id}`,
    })),
  ];
}

async function look({ silently = false } = {}) {
  const before = new Set(told());
  const all = await news();
  for (const one of silently || !isWanted() ? [] : all.filter((each) => !before.has(each.key))) {
    const shown = new Notification(one.title, { body: one.body.slice(0, 300), tag: one.key });
    shown.addEventListener("click", () => {
      window.focus();
      location.assign(one.href);
    });
  }
  localStorage.setItem("notified", JSON.stringify([...new Set([...before, ...all.map((one) => one.key)])].slice(-KEPT)));
}

function listen() {
  navigator.locks.request("notify", () => {
    const source = new EventSource("/events");
    source.addEventListener("sessions", () => look().catch(() => {}));
    look().catch(() => {});
    return new Promise((done) => {
      addEventListener("storage", () => {
        if (isWanted()) return;
        source.close();
        done();
      });
      box?.addEventListener("change", () => {
        if (box.checked) return;
        source.close();
        done();
      });
    });
  });
}

async function changed() {
  const says = document.getElementById("notify-says");
  says.textContent = "";
  if (!box.checked) return localStorage.removeItem("notify");
  if ((await Notification.requestPermission()) !== "granted") {
    box.checked = false;
    says.textContent = "This browser does not allow it for this page.";
    return;
  }
  // What is there already is on the page before their eyes.
  await look({ silently: true });
  localStorage.setItem("notify", "1");
  listen();
}

export function start() {
  if (!("Notification" in window) || !navigator.locks) return;
  if (box) {
    box.closest("p").hidden = false;
    box.checked = isWanted();
    box.addEventListener("change", () => changed().catch(() => {}));
  }
  if (isWanted()) listen();
}
