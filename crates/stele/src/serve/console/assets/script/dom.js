// Makes elements. Text is always set as text: no data is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Returns an element with attributes and children. Names that begin with "on" are listeners. */
export function h(tag, attributes = {}, ...children) {
  return made(document.createElement(tag), attributes, children);
}

/** Returns an element of SVG. */
export function s(tag, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const ICONS = {
  overview: "M2 12.5V9m4 3.5v-7m4 7V8m4 4.5v-9",
  tables: "M2 3.5h12v9H2zM2 7h12M6.5 7v5.5",
  tree: "M3 3.5h3M3 8h6M3 12.5h10",
  query: "M2.5 4.5 6 8l-3.5 3.5M8 12h5.5",
  backups: "M2.5 3h11v3.5h-11zM3.5 6.5V13h9V6.5M6.5 9h3",
  cluster: "M8 2.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6zM3.5 10.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6zm9 0a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6zM7 5.6l-2.6 4.8M9 5.6l2.6 4.8M5.3 12h5.4",
  heat: "M2.5 2.5h4v4h-4zm7 0h4v4h-4zm-7 7h4v4h-4zm7 0h4v4h-4z",
  good: "M3 8.5 6.5 12 13 4.5",
  note: "M8 7v5M8 4.2v.1",
  warning: "M8 5.5v4M8 11.8v.1M8 1.8 15 14H1z",
  critical: "M4.5 4.5l7 7m0-7-7 7",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5m0 11V15M1 8h1.5m11 0H15M3 3l1 1m8 8 1 1m0-10-1 1M4 12l-1 1",
  moon: "M13 9.8A5.5 5.5 0 0 1 6.2 3 5.5 5.5 0 1 0 13 9.8z",
  auto: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 0v12",
};

/** Returns a drawing of a known name, which screen readers pass over. */
export function icon(name) {
  return s("svg", { viewBox: "0 0 16 16", fill: "none", stroke: "currentColor", "stroke-width": 1.5, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" }, s("path", { d: ICONS[name] ?? "" }));
}

/** Returns a message with a tone: good, note, warning or critical; `guide` names a place that tells more. */
export function notice(tone, title, text, guide) {
  return h("div", { class: "notice", "data-tone": tone }, icon(tone), h("strong", {}, title), text ? h("p", {}, text) : null,
    guide ? h("p", {}, "More in ", h("code", {}, guide)) : null);
}

/** Returns buttons of which one is pressed; `choose` gets the value of the one that is pressed next. */
export function segments(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => press(value) }, text));
  function press(value) {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === value)));
    choose(value);
  }
  return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}
