// The list: looked up again when something happens, where it is; filters that say nothing stay out of the address.
import { dress, part, whileSeen } from "./dress.js";

const EVERY_MS = 1500;

export function start() {
  const list = document.getElementById("list");
  let waiting = false;
  let last = 0;
  let mark = document.body.dataset.mark;

  function soon() {
    if (waiting || new URLSearchParams(location.search).has("cursor")) return;
    waiting = true;
    setTimeout(refresh, Math.max(200, EVERY_MS - (Date.now() - last)));
  }

  async function refresh() {
    waiting = false;
    last = Date.now();
    const held = document.activeElement?.closest("[data-jump]")?.id;
    const unfolded = [...list.querySelectorAll("details[open]")].map((one) => one.parentElement.previousElementSibling?.id);
    try {
      const fresh = await part(location.href);
      dress(fresh);
      list.replaceChildren(fresh);
    } catch {
      soon();
      return;
    }
    for (const id of unfolded) document.getElementById(id)?.nextElementSibling?.querySelector("details")?.setAttribute("open", "");
    if (held) document.getElementById(held)?.querySelector("a")?.focus({ preventScroll: true });
  }

  whileSeen(() => {
    const source = new EventSource(`/events?since=${mark}`);
    source.addEventListener("sessions", (event) => {
      mark = event.lastEventId;
      soon();
    });
    return source;
  });

  const form = document.querySelector("form.finder");
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (!value || (name === "kind" && !event.formData.get("q"))) event.formData.delete(name);
  });
  form.querySelectorAll("select").forEach((one) => one.addEventListener("change", () => (one.name !== "kind" || form.elements.q.value) && form.requestSubmit()));
  return {};
}
