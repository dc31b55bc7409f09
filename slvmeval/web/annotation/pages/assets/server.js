/** Talk to the server: tokens, refusals, and an unreliable connection. */

const FIRST_WAIT_MS = 1000;
const MAX_WAIT_MS = 15000;
const PATIENCE_MS = 20000;

/** The server understood the request and refused it. */
export class Refusal extends Error {
  constructor({ reason, message, next_page: nextPage }) {
    super(message || reason);
    this.reason = reason || "other";
    this.nextPage = nextPage || null;
  }
}

export class Server {
  /** `onLine` is called with "online", "offline" or "busy" when that changes. */
  constructor(urls, csrf, onLine) {
    this.urls = urls;
    this.csrf = csrf;
    this.onLine = onLine;
    this.line = "online";
    this.wakers = new Set();
    window.addEventListener("online", () => { for (const wake of [...this.wakers]) wake(); });
  }

  setLine(line) {
    if (line === this.line) return;
    this.line = line;
    this.onLine(line);
  }

  /** Send once. Throws Refusal if the server refuses, and any other error for a lost connection. */
  async once(name, body, more = {}) {
    const request = body === undefined ? {} : {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF": this.csrf },
      body: JSON.stringify(body),
    };
    const signal = more.keepalive ? undefined : AbortSignal.timeout(PATIENCE_MS);
    const reply = await fetch(this.urls[name], { credentials: "same-origin", signal, ...request, ...more });
    if (reply.status === 429 || reply.status >= 500) {
      throw Object.assign(new Error(`status ${reply.status}`), { line: "busy" });
    }
    const isJson = (reply.headers.get("Content-Type") || "").includes("json");
    const answer = isJson ? await reply.json() : await reply.text();
    this.setLine("online");
    if (!reply.ok) throw new Refusal(isJson ? answer : { reason: "other" });
    return answer;
  }

  /** Send until the server answers; every request of the page may be sent twice without harm. */
  async ask(name, body) {
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, MAX_WAIT_MS)) {
      try {
        return await this.once(name, body);
      } catch (problem) {
        if (problem instanceof Refusal) throw problem;
        this.setLine(problem.line || "offline");
        await this.pause(wait);
      }
    }
  }

  /** Wait, at most until the browser reports that it is online again. */
  pause(milliseconds) {
    return new Promise((resolve) => {
      const wake = () => { clearTimeout(timer); this.wakers.delete(wake); resolve(); };
      const timer = setTimeout(wake, milliseconds);
      this.wakers.add(wake);
    });
  }

  /** The current task page: its document and its data. */
  async page() {
    const text = await this.ask("task");
    const page = new DOMParser().parseFromString(text, "text/html");
    const island = page.getElementById("island");
    return { page, island: island ? JSON.parse(island.textContent) : null };
  }
}
