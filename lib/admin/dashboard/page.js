/* Small tools for the page. What comes from the server is only ever set as text, and plainly. */

const byId = (id) => document.getElementById(id);
const part = (root, name) => root.querySelector(`[data-${name}]`);

/* Writes only what changed: what an operator has selected stays selected. */
function setText(node, text) {
  const wanted = plainly(text ?? "");
  if (node.textContent !== wanted) node.textContent = wanted;
}

/* A text of our own making that has lines, in each of which nothing breaks. */
function setLines(node, text) {
  node.textContent = text.split("\n").map(plainly).join("\n");
}

/* What is shown when the pointer rests there. */
function setTitle(node, text) {
  node.title = plainly(text ?? "");
}

function setState(node, state) {
  if (state) node.dataset.state = state;
  else delete node.dataset.state;
}

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  const shown = (name, value) => (["title", "aria-label"].includes(name) ? plainly(value) : value);
  for (const [name, value] of Object.entries(attributes))
    if (value != null) node.setAttribute(name, shown(name, value));
  node.append(
    ...children
      .filter((child) => child != null)
      .map((child) => (typeof child === "string" ? plainly(child) : child)),
  );
  return node;
}

function fromTemplate(id) {
  return byId(id).content.firstElementChild.cloneNode(true);
}

/* Makes the children of `parent` be one for each item, in their order. Nodes of items that stay are
 * kept, and so are the focus and the eye on them. */
function keepList(parent, items, keyOf, makeNode, update) {
  const old = new Map([...parent.children].map((node) => [node.itemKey, node]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = old.get(key);
    old.delete(key);
    if (!node) {
      node = makeNode(item);
      node.itemKey = key;
    }
    update?.(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const node of old.values()) node.remove();
}

/* Pairs of a term and what is said of it; without what is null or empty. */
function showFacts(list, facts) {
  const shown = facts.filter(([, value]) => value != null && value !== "");
  keepList(
    list,
    shown.flatMap(([term, value]) => [
      ["dt", term, term],
      ["dd", term, value],
    ]),
    ([tag, term]) => `${tag} ${term}`,
    ([tag, term]) => make(tag, tag === "dd" && term === "Request" ? { class: "request" } : {}),
    (node, [, , text]) => setText(node, text),
  );
}

/* An option for each name; keeps the choice where it still is one. */
function showOptions(select, options) {
  keepList(
    select,
    options,
    ([value]) => value,
    ([value]) => make("option", { value }),
    (node, [, text]) => setText(node, text),
  );
}

/* A sentence at the foot of the page, for a while; screen readers say it. */
function say(text) {
  const line = make("p", {}, text);
  byId("said").append(line);
  setTimeout(() => line.remove(), 6000);
}

function openDialog(id) {
  const dialog = byId(id);
  if (!dialog.open) dialog.showModal();
  return dialog;
}

/* Resolves to whether the operator said yes; Escape is no. */
function confirmed(title, text, yes) {
  const dialog = byId("confirm");
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(byId("confirm-yes"), yes);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

function startTheme() {
  const themes = [
    ["auto", "Auto", "as the system has them"],
    ["light", "Light", "light"],
    ["dark", "Dark", "dark"],
  ];
  let at = Math.max(
    0,
    themes.findIndex(([name]) => name === localStorage.getItem("weir-theme")),
  );
  const show = () => {
    const [name, word, words] = themes[at];
    document.documentElement.dataset.theme = name;
    setText(byId("theme"), word);
    byId("theme").setAttribute("aria-label", `Colours: ${words}`);
  };
  byId("theme").addEventListener("click", () => {
    at = (at + 1) % themes.length;
    localStorage.setItem("weir-theme", themes[at][0]);
    show();
  });
  show();
}
