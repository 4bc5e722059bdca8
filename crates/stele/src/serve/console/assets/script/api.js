// The only place that asks the server. The token is kept for this tab, and is sent as a header.

const ROOT = "api/v1";
const TOKEN = "stele-token";

export class ApiError extends Error {
  /** Errors of statements of SQL have more: sqlstate, detail, hint and position, as far as they are known. */
  constructor(status, code, message, more = {}) {
    super(message);
    const { sqlstate, detail, hint, position } = more;
    Object.assign(this, { status, code, sqlstate, detail, hint, position });
  }
}

export function token() {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return "";
  }
}

export function setToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

/** Asks for a path of the API with parameters; those that are undefined are left out. */
export function get(path, parameters = {}, signal) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined));
  return ask(`${path}${query.size > 0 ? `?${query}` : ""}`, { signal });
}

export function post(path, body, signal) {
  return ask(path, { method: "POST", body: JSON.stringify(body), signal, headers: { "content-type": "application/json" } });
}

async function ask(path, options) {
  const headers = { ...options.headers, "x-stele-console": "1" };
  if (token()) headers.authorization = `Bearer ${token()}`;
  let answer;
  try {
    answer = await fetch(`${ROOT}${path}`, { ...options, headers, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "UNREACHABLE", "The server does not answer.");
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok && body !== null) return body;
  const { code, message, ...more } = body?.error ?? { code: "INTERNAL", message: `The server answered with status ${answer.status}.` };
  if (answer.status === 401) document.dispatchEvent(new CustomEvent("stele-sign-in"));
  throw new ApiError(answer.status, code, message, more);
}
