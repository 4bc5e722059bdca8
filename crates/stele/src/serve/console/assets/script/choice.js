// What pages about one table share: the choice of the table, and drawing again in another width.

import { get } from "./api.js";
import { fill, h, notice } from "./dom.js";

/**
 * Fills `select` with the tables that the visitor may list, and calls `load` if one of them is `chosen`.
 * Else goes to the `page` of the first one. Says so in `body` if there are none.
 */
export async function chooseTable(select, { page, chosen, body, signal, load }) {
  try {
    const answer = await get("/tables", {}, signal);
    const names = answer.tables.map((one) => one.name);
    if (chosen && !names.includes(chosen)) names.unshift(chosen);
    fill(select, names.map((name) => h("option", { value: name, selected: name === chosen }, name.split("/tables/").at(-1))));
    if (chosen) load();
    else if (names.length > 0) location.replace(`#/${page}/${encodeURIComponent(names[0])}`);
    else fill(body, h("div", { class: "card empty" }, h("strong", {}, "No tables"), "There are no tables that you may list."));
  } catch (error) {
    if (error.name !== "AbortError") fill(body, notice("critical", "The tables cannot be listed", error.message));
  }
}

/** Calls `draw` when the window changes its size. Returns what ends that, and calls `stop`. */
export function drawnAgain(draw, stop) {
  const resized = () => draw();
  window.addEventListener("resize", resized);
  return () => {
    stop();
    window.removeEventListener("resize", resized);
  };
}

/** Returns the sum of numbers. */
export function sum(values) {
  return values.reduce((left, right) => left + right, 0);
}
