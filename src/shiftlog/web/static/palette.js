// The command palette: sessions, projects and files that the server finds, and the links and acts of the page at hand.
import { ago, openAround } from "./dress.js";

let dialog = null;
let shown = [];
let at = 0;
let asked = 0;

function make() {
  dialog = document.createElement("dialog");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Go to");
  const field = document.createElement("input");
  Object.assign(field, { type: "text", placeholder: "Go to a session, project, file or action", autocomplete: "off", spellcheck: false, maxLength: 200 });
  for (const [name, value] of [["role", "combobox"], ["aria-label", "Go to"], ["aria-expanded", "true"], ["aria-controls", "palette-list"], ["aria-autocomplete", "list"]]) field.setAttribute(name, value);
  const list = document.createElement("ul");
  list.id = "palette-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "What fits");
  dialog.append(field, list);
  document.body.append(dialog);
  field.addEventListener("input", () => look(field, list));
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) choose(field, list, (at + step + shown.length) % shown.length);
    else if (event.key === "Enter") run(shown[at]);
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return { field, list };
}

const said = (element) => element.textContent.trim().replace(/\s+/g, " ");

// What the page itself offers: its links, and its forms by their buttons.
function actions(text) {
  const links = [...document.querySelectorAll(".top nav a, .tabs a, .subagent > .about a")].map((link) => {
    const child = link.closest(".subagent")?.querySelector(":scope > summary");
    return { kind: "go", title: said(child ?? link), act: () => link.click() };
  });
  const undos = [...document.querySelectorAll('article.turn a[href$="/undo"]')].map((link) => {
    const turn = link.closest("article.turn");
    return { kind: "action", title: `Take back turn ${said(turn.querySelector(".anchor"))}: ${said(turn.querySelector("h3"))}`, act: () => link.click() };
  });
  const named = { "errors-next": "Next error", bookkeeping: "Show or hide bookkeeping" };
  const buttons = '.acts button, .asked button, [data-copy-from], #errors-next, #bookkeeping';
  const forms = [...document.querySelectorAll(buttons)].map((button) => {
    const command = button.form?.closest("article.asked")?.querySelector("pre");
    const title = named[button.id] ?? said(button) + (command ? `: ${said(command).replace(/^\$ /, "")}` : "");
    return { kind: "action", title, act: () => perform(button) };
  });
  return [...links, ...forms, ...undos].filter((one) => one.title.toLowerCase().includes(text)).slice(0, 12);
}

// A form that still wants words is shown; any other is sent.
function perform(button) {
  const wanting = button.form && [...button.form.elements].find((one) => one.matches("input:not([type=hidden], [type=checkbox]), textarea"));
  if (!wanting) return button.click();
  openAround(button);
  wanting.focus();
}

async function look(field, list) {
  const text = field.value.trim();
  const own = text ? actions(text.toLowerCase()) : [];
  const number = (asked += 1);
  let items = [];
  try {
    const answer = await fetch(`/palette?${new URLSearchParams({ q: text })}`, { headers: { Accept: "application/json" } });
    items = answer.ok ? (await answer.json()).items : [];
  } catch {
    items = [];
  }
  if (number !== asked) return;
  // Who types the beginning of an action's name means the action, whatever else holds the word.
  const meant = own.filter((one) => text.length > 2 && one.title.toLowerCase().startsWith(text.toLowerCase()));
  const found = items.map((item) => ({ ...item, act: () => location.assign(item.href) }));
  shown = [...meant, ...found, ...own.filter((one) => !meant.includes(one))];
  list.replaceChildren(...shown.map(option));
  choose(field, list, 0);
}

function option(item, number) {
  const line = document.createElement("li");
  line.id = `palette-${number}`;
  line.setAttribute("role", "option");
  const kind = document.createElement("span");
  kind.className = "tag";
  kind.textContent = item.kind;
  const title = document.createElement("span");
  title.className = "said";
  title.textContent = item.title;
  const about = document.createElement("span");
  about.className = "about";
  about.textContent = [item.about, item.at && ago(new Date(item.at))].filter(Boolean).join(" · ");
  line.append(kind, title, about);
  line.addEventListener("click", () => run(item));
  return line;
}

function choose(field, list, number) {
  at = number;
  [...list.children].forEach((line, place) => line.setAttribute("aria-selected", String(place === at)));
  if (shown.length) field.setAttribute("aria-activedescendant", `palette-${at}`);
  else field.removeAttribute("aria-activedescendant");
  list.children[at]?.scrollIntoView({ block: "nearest" });
}

function run(item) {
  if (!item) return;
  dialog.close();
  item.act();
}

let parts = null;

export function open() {
  parts ??= make();
  if (dialog.open) return;
  parts.field.value = "";
  dialog.showModal();
  parts.field.focus();
  look(parts.field, parts.list);
}
