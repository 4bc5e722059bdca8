// Signing in with a token.

import { get, setToken, token } from "./api.js";
import { fill, h } from "./dom.js";

/** Shows the form in `main`. Calls `done` with the session of a token that the server knows. */
export function signIn(main, done) {
  const error = h("p", { class: "form-error", role: "alert" });
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const button = h("button", { class: "button primary", type: "submit" }, "Sign in");
  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    setToken(input.value.trim());
    try {
      done(await get("/session"));
    } catch (failure) {
      setToken("");
      error.textContent = failure.status === 401 ? "The server does not know this token." : failure.message;
      button.disabled = false;
      input.select();
    }
  }
  const refused = token() !== "";
  setToken("");
  if (refused) error.textContent = "The token is no longer valid.";
  document.title = "Sign in · Stele console";
  fill(main, h("section", { class: "card sign-in", "aria-labelledby": "sign-in-title" },
    h("h1", { id: "sign-in-title" }, "Sign in"),
    h("p", { class: "card-note" }, "This server knows its callers. Use a token of ", h("code", {}, "stele identity"), ", an access token, or one of your issuer."),
    h("form", { onsubmit: submit },
      h("div", { class: "field" }, h("label", { for: "token" }, "Token"), input),
      error, button),
    h("p", { class: "card-note" }, "The token stays in this tab and is forgotten when the tab closes.")));
  input.focus();
}
