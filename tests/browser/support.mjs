// Starts Redis, weir-demo and Chromium for tests, and ends what it started by its process id.
// Nothing sleeps to hope: until() looks until a thing is so.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

// A busy machine is slow; only a hang takes this long.
export const PATIENCE_MS = Number(process.env.WEIR_PATIENCE_MS ?? 60000);

export const TOKEN = "a-token-for-the-browser-tests";

const KEYS = {
  keys: [
    {
      id: "acme-free",
      sha256: "4a55ea81e1313e68a8feea48e98110bc50e4ca82fed243a92f8de2e9e00e5ecb",
      plan: "free",
      tenant: "acme",
    },
    {
      id: "globex-pro",
      sha256: "ff83448544d92a31f29f045bb4b32f207b8e8358882135d71cd07e235d682936",
      plan: "pro",
      tenant: "globex",
    },
  ],
};

export async function until(condition, what) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > deadline)
      throw new Error(`after ${PATIENCE_MS / 1000} s it is still not so that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

// Whatever ends this process, nothing that it started stays behind.
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(1));

class Program {
  constructor(command, options, environment = {}) {
    this.log = "";
    this.process = spawn(command, options, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...environment },
    });
    running.add(this.process);
    this.ended = once(this.process, "exit").then((ending) => {
      running.delete(this.process);
      return ending;
    });
    this.process.stderr.on("data", (text) => {
      this.log += text;
    });
  }

  async end(signal) {
    if (this.process.exitCode === null && this.process.signalCode === null) this.process.kill(signal);
    const [status] = await this.ended;
    return status;
  }
}

export class Redis {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "weir-browser-"));
    this.path = join(this.folder, "redis.sock");
  }

  async start() {
    this.program = new Program("redis-server", [
      "--port",
      "0",
      "--unixsocket",
      this.path,
      "--save",
      "",
      "--appendonly",
      "no",
      "--dir",
      this.folder,
    ]);
    this.program.process.stdout.resume();
    await until(() => this.answers(), "Redis answers");
  }

  answers() {
    return new Promise((resolve) => {
      const socket = connect(this.path, () => socket.end("PING\r\n"));
      socket
        .on("data", (text) => resolve(text.toString().startsWith("+PONG")))
        .on("error", () => resolve(false))
        .on("close", () => resolve(false));
    });
  }

  async kill() {
    await this.program?.end("SIGKILL");
  }

  async end() {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export class Demo {
  constructor(config, token = TOKEN) {
    this.token = token;
    this.folder = mkdtempSync(join(tmpdir(), "weir-browser-"));
    this.config = join(this.folder, "policy.json");
    writeFileSync(join(this.folder, "api-keys.json"), JSON.stringify(KEYS));
    this.write(config);
  }

  write(config) {
    writeFileSync(this.config, typeof config === "string" ? config : JSON.stringify(config, null, 2));
  }

  async start() {
    this.program = new Program(
      process.env.WEIR_DEMO,
      ["--listen", "127.0.0.1:0", "--config", this.config, "--admin"],
      { WEIR_ADMIN_TOKEN: this.token ?? undefined },
    );
    const lines = createInterface({ input: this.program.process.stdout });
    const [line] = await Promise.race([
      once(lines, "line"),
      this.program.ended.then(() => [`it ended: ${this.program.log}`]),
    ]);
    if (!line.startsWith("listening on ")) throw new Error(`weir-demo did not start: ${line}`);
    this.url = line.split(" ").pop();
  }

  // Sends the path as it stands: fetch() would rewrite it.
  ask(path, headers = {}, method = "GET") {
    return new Promise((resolve, reject) => {
      const { hostname, port } = new URL(this.url);
      request({ hostname, port, path, headers, method }, (response) =>
        response.resume().on("end", () => resolve(response.statusCode)),
      )
        .on("error", reject)
        .end();
    });
  }

  async end() {
    const status = await this.program?.end("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
    if (status) throw new Error(`weir-demo ended with ${status}: ${this.program.log}`);
  }

  lines() {
    return this.program.log.split("\n").filter(Boolean);
  }
}

export async function startBrowser() {
  const { chromium } = createRequire(join(process.env.WEIR_NODE_MODULES, "package.json"))("playwright-core");
  return chromium.launch({
    executablePath: process.env.WEIR_CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

// A page that keeps what the console said.
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.complaints = [];
  page.on(
    "console",
    (message) => ["error", "warning"].includes(message.type()) && page.complaints.push(message.text()),
  );
  page.on("pageerror", (why) => page.complaints.push(String(why.stack ?? why)));
  await page.goto(url);
  return page;
}

// Chromium itself writes a line for each answer that is an error.
export function complaintsBut(page, expected) {
  return page.complaints.filter((text) => !expected.test(text));
}
