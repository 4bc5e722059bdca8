// Keys, qualifiers and values. They may hold anything: they are shown as text nodes only, and what a
// reader could not see or would be misled by stands as an escape.

import { fill, h } from "./dom.js";

/** Returns the bytes of base64url without padding. */
export function decode(data) {
  const binary = atob(data.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
}

/** Returns base64url without padding. */
export function encode(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Control, format (bidi, zero width), private and unassigned characters, and separators but the space. */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

/** Returns pieces of bytes: `{ text, escaped }`. Bytes that are no UTF-8 are escaped one by one. */
export function pieces(bytes) {
  const out = [];
  const add = (text, escaped) => {
    const last = out.at(-1);
    if (last && last.escaped === escaped) last.text += text;
    else out.push({ text, escaped });
  };
  let at = 0;
  while (at < bytes.length) {
    const [letter, length] = character(bytes, at);
    if (letter === null) add(hex(bytes[at]), true);
    else if (letter === "\\") add("\\\\", true);
    else if (HIDDEN.test(letter)) for (const byte of bytes.subarray(at, at + length)) add(hex(byte), true);
    else add(letter, false);
    at += length;
  }
  return out;
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Returns the character at a place, null for a byte that begins none, and its length. */
function character(bytes, at) {
  const first = bytes[at];
  const length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
  if (length === 0 || at + length > bytes.length) return [null, 1];
  try {
    return [UTF8.decode(bytes.subarray(at, at + length)), length];
  } catch {
    return [null, 1];
  }
}

function hex(byte) {
  return `\\x${byte.toString(16).padStart(2, "0")}`;
}

/** Returns bytes as a text with escapes, which `parse` reads back. */
export function text(bytes) {
  return pieces(bytes).map((piece) => piece.text).join("");
}

/** Returns the literal of bytes in SQL. */
export function literal(bytes) {
  let out = "";
  for (const byte of bytes) {
    const letter = String.fromCharCode(byte);
    if (letter === "'" || letter === "\\") out += `\\${letter}`;
    else out += byte >= 0x20 && byte < 0x7f ? letter : hex(byte);
  }
  return `b'${out}'`;
}

/** Returns the bytes of a text with escapes `\xNN` and `\\`. Throws for another escape. */
export function parse(input) {
  const out = [];
  const encoder = new TextEncoder();
  for (let at = 0; at < input.length;) {
    if (input[at] !== "\\") {
      const letter = String.fromCodePoint(input.codePointAt(at));
      out.push(...encoder.encode(letter));
      at += letter.length;
      continue;
    }
    const escape = /^\\(?:\\|x([0-9a-fA-F]{2}))/.exec(input.slice(at, at + 4));
    if (!escape) throw new Error("After a backslash comes x and two hexadecimal digits, or a second backslash.");
    out.push(escape[1] === undefined ? 0x5c : parseInt(escape[1], 16));
    at += escape[0].length;
  }
  return Uint8Array.from(out);
}

/** Returns an element that shows bytes: `{ data, bytes }`, of which some may not be there. */
export function shown(of, most = Infinity) {
  const all = decode(of.data);
  const bytes = all.subarray(0, most);
  const element = h("span", { class: "bytes" });
  if (of.bytes === 0) return fill(element, h("span", { class: "nothing" }, "empty"));
  fill(element, pieces(bytes).map((piece) => (piece.escaped ? h("span", { class: "escape" }, piece.text) : piece.text)));
  if (bytes.length < of.bytes) element.append(h("span", { class: "nothing" }, ` … ${(of.bytes - bytes.length).toLocaleString("en")} more bytes`));
  return element;
}

/** Returns a text of others, such as a name, with escapes for what a reader could not see or would be misled by. */
export function escaped(name) {
  return text(new TextEncoder().encode(name));
}

/** Returns an element that shows a text of others with its escapes. */
export function named(name) {
  const parts = pieces(new TextEncoder().encode(name));
  return fill(h("bdi", {}), parts.map((piece) => (piece.escaped ? h("span", { class: "escape" }, piece.text) : piece.text)));
}

/** Returns a dump of bytes: offset, sixteen bytes, and their letters. */
export function dump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const line = [...bytes.subarray(at, at + 16)];
    const digits = line.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const letters = line.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${digits}  ${letters}`);
  }
  return lines.join("\n");
}

/** Returns the number that eight bytes are, big-endian. */
export function int64(bytes) {
  return bytes.length === 8 ? new DataView(bytes.buffer, bytes.byteOffset, 8).getBigInt64(0).toString() : null;
}
