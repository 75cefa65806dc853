/* The admin API, as the page asks it. */

const TOKEN = "weir-token";
const PATIENCE_MS = 8000;

/* What went wrong, in words for an operator. status 0: no answer at all. */
class Failure extends Error {
  constructor(status, text, retryS) {
    super(text);
    this.status = status;
    this.retryS = retryS;
  }
}

const server = {
  base: baseOf(location.pathname),
  token: sessionStorage.getItem(TOKEN),

  keepToken(token) {
    this.token = token;
    if (token === null) sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, token);
  },

  async ask(method, path, { query, body } = {}) {
    const headers = { Accept: "application/json" };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (method === "POST") headers["Content-Type"] = "application/json";
    const search = query ? `?${new URLSearchParams(query)}` : "";
    let response;
    try {
      response = await fetch(`${this.base}${path}${search}`, {
        method,
        headers,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        body: method === "POST" ? JSON.stringify(body ?? {}) : undefined,
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
    } catch (why) {
      throw new Failure(
        0,
        why.name === "TimeoutError"
          ? `No answer within ${PATIENCE_MS / 1000} s.`
          : "The server cannot be reached.",
      );
    }
    return this.read(response);
  },

  async read(response) {
    const answer = await response.json().catch(() => null);
    if (response.ok && answer !== null) return answer;
    const retryS = Number(response.headers.get("Retry-After")) || 0;
    const text =
      answer?.detail ??
      answer?.title ??
      (response.ok ? "The answer is no JSON." : `Status ${response.status}.`);
    throw new Failure(response.ok ? 502 : response.status, text, retryS);
  },

  get(path, query) {
    return this.ask("GET", path, { query });
  },

  post(path, body) {
    return this.ask("POST", path, { body });
  },
};

/* Asks for the token until the server takes it. One question at a time, whoever notices. */
let asking = null;

function askForToken(why) {
  asking ??= new Promise((resolve) => {
    const alarm = byId("token-why");
    alarm.hidden = !why;
    setText(alarm, why ?? "");
    byId("token-value").value = "";
    const dialog = openDialog("token");
    dialog.returnValue = "";
    byId("token-value").focus();
    dialog.addEventListener(
      "close",
      () => {
        const token = dialog.returnValue === "use" ? byId("token-value").value.trim() : "";
        byId("token-value").value = "";
        asking = null;
        if (token !== "") server.keepToken(token);
        resolve(token !== "");
      },
      { once: true },
    );
  });
  return asking;
}
