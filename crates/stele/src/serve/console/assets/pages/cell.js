// One cell in a dialog: as text, as bytes, and as a literal to copy.

import { get } from "../script/api.js";
import { decode, dump, int64, literal, shown } from "../script/bytes.js";
import { fill, h, notice, segments } from "../script/dom.js";
import { bytes, date } from "../script/format.js";

const DUMP_BYTES = 64 << 10;

/** Opens a dialog with a cell of the row `key`, and reads the rest of its value if it is long. */
export async function openCell(table, key, cell) {
  const content = h("div", { class: "cell-content", tabindex: 0, role: "region", "aria-label": "Value" });
  const status = h("span", { class: "card-note", role: "status" });
  let value = cell.value;
  let form = "text";
  const dialog = h("dialog", { class: "card cell-dialog", "aria-labelledby": "cell-title", onclose: () => dialog.remove() },
    h("div", { class: "card-head" }, h("h2", { id: "cell-title" }, `${cell.family}:`, shown(cell.qualifier)),
      h("div", { class: "end" }, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close"))),
    h("div", { class: "card-body" },
      h("p", { class: "card-note" }, "Row ", shown(key, 80), ` · timestamp ${cell.timestamp_micros} µs (${date(Number(cell.timestamp_micros) / 1000)}) · ${bytes(cell.value.bytes)}`),
      h("div", { class: "cell-tools" },
        segments("Form of the value", [["text", "Text"], ["hex", "Hex"], ["literal", "SQL literal"]], form, (chosen) => {
          form = chosen;
          draw();
        }),
        h("button", { type: "button", class: "button", onclick: copy }, "Copy as literal"), status),
      content));

  function draw() {
    const all = decode(value.data);
    const number = int64(all);
    if (form === "text") fill(content, shown(value), number === null ? null : h("p", { class: "card-note" }, `As a big-endian int64: ${number}`));
    else if (form === "hex") fill(content, h("pre", {}, dump(all.subarray(0, DUMP_BYTES))), all.length > DUMP_BYTES ? h("p", { class: "card-note" }, "The first 64 KiB.") : null);
    else fill(content, h("pre", { class: "wrapped" }, literal(all.subarray(0, DUMP_BYTES))));
  }

  async function copy() {
    try {
      await navigator.clipboard.writeText(literal(decode(value.data)));
      const all = decode(value.data).length;
      status.textContent = all < value.bytes ? `Copied the first ${bytes(all)}` : "Copied";
    } catch {
      status.textContent = "The browser does not allow it; select the literal and copy it";
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  draw();
  if (decode(value.data).length >= value.bytes) return;
  try {
    const answer = await get("/cell", { table, key: key.data, family: cell.family, qualifier: cell.qualifier.data, timestamp: cell.timestamp_micros });
    const found = answer.row?.cells[0];
    if (found) value = found.value;
    else status.textContent = "The cell is gone; this is its beginning";
    draw();
  } catch (failure) {
    content.before(notice("critical", "The rest of the value cannot be read", failure.message));
  }
}
