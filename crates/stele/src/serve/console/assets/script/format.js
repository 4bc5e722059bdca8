// Numbers, times and bytes as people read them.

const MISSING = "–";

function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** 1234567 -> "1.23 M". */
export function count(value) {
  if (!known(value)) return MISSING;
  for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]]) {
    if (Math.abs(value) >= size) return digits(value / (unit === " k" ? 1e3 : size)) + unit;
  }
  return Number.isInteger(value) || Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (size !== 0 && size < 0.01) return value < 0 ? "> -0.01" : "< 0.01";
  return plain(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2));
}

/** Takes the zeros away that end a fraction. */
function plain(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export function rate(value) {
  return known(value) ? `${count(value)}/s` : MISSING;
}

export function bytes(value) {
  if (!known(value)) return MISSING;
  for (const [power, unit] of [[5, "PiB"], [4, "TiB"], [3, "GiB"], [2, "MiB"], [1, "KiB"]]) {
    if (Math.abs(value) >= 1024 ** power) return `${digits(value / 1024 ** power)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

export function bytesRate(value) {
  return known(value) ? `${bytes(value)}/s` : MISSING;
}

export function percent(value) {
  if (!known(value)) return MISSING;
  const size = value * 100;
  return `${plain(size.toFixed(size >= 10 ? 1 : 2))} %`;
}

/** Milliseconds: "340 µs", "2.4 ms", "1.2 s". */
export function milliseconds(value) {
  if (!known(value)) return MISSING;
  if (value < 1) return `${digits(value * 1e3)} µs`;
  return value < 1e3 ? `${digits(value)} ms` : `${digits(value / 1e3)} s`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

export function date(ms) {
  const when = new Date(ms);
  return Number.isNaN(when.getTime()) ? MISSING : when.toISOString().replace("T", " ").replace(/\.000Z$/, "Z");
}

export function duration(seconds) {
  if (!known(seconds)) return MISSING;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  const [size, unit] = parts[first];
  const next = parts[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
  return `${Math.floor(seconds / size)} ${unit}${rest > 0 ? ` ${rest} ${next[1]}` : ""}`;
}
