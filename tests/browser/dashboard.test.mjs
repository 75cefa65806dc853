// The dashboard of a running weir-demo with a Redis of its own, in a real browser. One server and one
// page serve most tests, in their order; each leaves the page as it found it.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { contrasts, unnamed, wideParts } from "./looks.mjs";
import { Demo, Redis, TOKEN, complaintsBut, openPage, startBrowser, until } from "./support.mjs";

const FREE = { "X-API-Key": "free-demo-key" };
const PRO = { "X-API-Key": "pro-demo-key" };
const HURT = "/v1/" + encodeURIComponent('<img src=x onerror="window.hurt=1">');

const policy = (store, rate = "20/minute") => ({
  store: { url: store, timeout: "500ms" },
  api_keys: { header: "X-API-Key", file: "api-keys.json" },
  plans: { free: {}, pro: {} },
  policies: {
    api: {
      limits: [
        { name: "minute", by: "client", rate },
        { name: "hour", by: "client", rate: "5000/hour" },
      ],
      on_store_failure: "open",
    },
    trial: { mode: "shadow", limits: [{ name: "few", by: "client", rate: "1/minute" }] },
    public: { limits: [{ name: "address", by: "ip", rate: "6000/minute" }] },
  },
  routes: [
    { match: "GET /v1/search", auth: "required", policy: "trial" },
    { match: "* /v1/*", auth: "required", policy: "api" },
  ],
  default: "public",
});

let redis, demo, browser, page;

before(async () => {
  redis = new Redis();
  await redis.start();
  demo = new Demo(policy(`redis+unix://${redis.path}`));
  await demo.start();
  browser = await startBrowser();
  page = await openPage(browser, `${demo.url}/admin`);
});

// What one test has left open is not in the way of the next.
beforeEach(() =>
  page.evaluate(() =>
    document.querySelectorAll("dialog[open]:not(#token)").forEach((dialog) => dialog.close()),
  ),
);

after(async () => {
  await browser?.close();
  await Promise.all([demo?.end(), redis?.end()]);
});

const textOf = (selector) => page.locator(selector).innerText();
const tile = (name) =>
  page
    .locator(".tile")
    .filter({ has: page.getByText(name, { exact: true }) })
    .locator(".value")
    .innerText();
const status = () => textOf("#status");
const says = (selector, words) =>
  until(
    async () =>
      (await page.locator(selector).allInnerTexts()).join("\n").replaceAll("\u00a0", " ").includes(words),
    `${selector} says "${words}"`,
  );

async function ask(times, path, headers) {
  const statuses = [];
  for (let i = 0; i < times; i++) statuses.push(await demo.ask(path, headers));
  return statuses;
}

test("asks for the token, says that a wrong one is wrong, and keeps the right one for the tab", async () => {
  await page.locator("#token[open]").waitFor();
  await page.keyboard.press("Escape");
  await says("#sign-out", "Sign in");
  const told = page.locator(".empty:visible, .quota:visible, #trouble:visible");
  assert.deepEqual(await told.allInnerTexts(), [], "nothing is told that nobody has said");
  await page.click("#sign-out");
  await page.fill("#token-value", "not-the-token-of-anybody");
  await page.keyboard.press("Enter");
  await says("#token-why", "does not take this token");
  await page.fill("#token-value", TOKEN);
  await page.keyboard.press("Enter");
  await until(async () => (await status()) === "live", "the page is live");
  assert.equal(await page.locator("#token[open]").count(), 0);
  await page.reload();
  await until(async () => (await status()) === "live", "the page is live after a reload");
  await page.click("#sign-out");
  await page.locator("#token[open]").waitFor();
  await page.keyboard.press("Escape");
  await says("#trouble", "You are signed out. This page is as of ");
  await page.click("#sign-out");
  await page.fill("#token-value", TOKEN);
  await page.keyboard.press("Enter");
  await until(async () => (await status()) === "live", "the page is live once more");
  await until(async () => !(await page.locator("#trouble").isVisible()), "nothing is wrong any more");
  assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage })), "{}");
  assert.ok(!page.url().includes(TOKEN));
  assert.deepEqual(complaintsBut(page, /401/), []);
  page.complaints.length = 0;
});

test("shows a chart for each policy and its limits", async () => {
  await says("#policies h3", "public");
  assert.deepEqual(await page.locator("#policies h3").allInnerTexts(), ["api", "trial", "public", "api_keys"]);
  await says("#policies [data-limits]", "minute 20/minute by client");
  await says("#policies [data-mode]", "shadow");
  assert.equal(await page.title(), "weir");
  await says("#about", "weir 0.");
  await says("#policy-facts", "Generation");
});

test("follows what is asked and refused", async () => {
  const statuses = await ask(60, "/v1/catalog", FREE);
  assert.ok(statuses.includes(200) && statuses.includes(429), String(statuses));
  await ask(12, "/v1/catalog", PRO);
  await ask(3, "/v1/search?q=gate", PRO);
  await until(
    async () => (await tile("Allowed")) !== "0 /s" && (await tile("Refused")) !== "0 /s",
    "the tiles say that some were allowed and some refused",
  );
  await until(
    () => page.locator("#policies path.area.refused").first().getAttribute("d"),
    "the chart shows refusals",
  );
  await says("#refusals-rows", "api › minute");
  await says("#refusals-rows", "/v1/catalog");
  await says("#refusals-rows", "shadow-limited");
  await says("#top-spent", "api_key:acme-free");
  await says("#top-refused", "api_key:acme-free");
  await says("#top-spent-note", "each count is exact");
  await until(
    () => page.locator("#latency-chart path.curve.median").getAttribute("d"),
    "the store's latency has a curve",
  );
  await until(
    () => page.locator("#histogram-chart path.column").count(),
    "the store's latency has a histogram",
  );
});

test("shows what the first clients have left", async () => {
  await says("#top-spent .quota", "of 20 left");
  await says("#top-spent .quota", "5\u202f000 left");
});

test("explains a refusal, and gives the focus back", async () => {
  const why = page
    .locator("#refusals-rows tr", { hasText: "limited" })
    .filter({ hasNotText: "shadow" })
    .first()
    .locator("button");
  await why.focus();
  await page.keyboard.press("Enter");
  await page.locator("#explain[open]").waitFor();
  await says("#explain-verdict", "limit “minute” of policy “api”");
  await says("#explain-facts", "api_key:acme-free");
  await says("#explain-facts", "of 20 in");
  await says("#explain-steps", "Limits");
  await page.keyboard.press("Escape");
  await until(async () => (await page.locator("#explain[open]").count()) === 0, "the dialog is closed");
  assert.ok(await why.evaluate((button) => button === document.activeElement));
  await page.evaluate(() => document.activeElement.blur());
});

test("takes nothing that a client sends for markup", async () => {
  await ask(25, HURT, FREE);
  await says("#refusals-rows", '/v1/<img src=x onerror="window.hurt=1">');
  await page.locator("#refusals-rows tr", { hasText: "<img" }).first().locator("button").click();
  await says("#explain-facts", "<img");
  await page.click("#explain [data-close]");
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.evaluate(() => window.hurt), undefined);
});

test("shows a path as it is, whatever its signs do to what is around them", async () => {
  const path = "/v1/" + encodeURIComponent("a\u202eb\n\u001b[31m\u200bc") + "/" + encodeURIComponent("א/1");
  const shown = "/v1/a\\u{202e}b\\u{000a}\\u{001b}[31m\\u{200b}c/א/1";
  await page.evaluate(() => document.activeElement.blur()); // rows stay while they are read
  await page.mouse.move(0, 0);
  await ask(25, path, FREE);
  await says("#refusals-rows", shown);
  const cell = page.locator("#refusals-rows td.request", { hasText: "u{202e}" }).first();
  assert.equal(await cell.getAttribute("title"), `GET ${shown}`);
  assert.equal(await cell.evaluate((node) => getComputedStyle(node).unicodeBidi), "bidi-override");
  const why = page.locator("#refusals-rows tr", { hasText: "u{202e}" }).first().locator("button");
  assert.ok((await why.getAttribute("aria-label")).endsWith(shown));
  await why.click();
  await says("#explain-facts dd.request", shown);
  await until(async () => !(await textOf("#explain-note")).startsWith("Asking"), "the server has explained it");
  assert.doesNotMatch(await page.evaluate(() => document.body.textContent), /[\u202e\u001b\u200b]/);
  await page.click("#explain [data-close]");
});

test("finds rows by their words", async () => {
  await page.fill("#refusals-filter", "SHADOW");
  await until(
    async () =>
      (await page.locator("#refusals-rows .outcome").allInnerTexts()).every(
        (text) => text === "shadow-limited",
      ),
    "only shadow is left",
  );
  await page.fill("#refusals-filter", "no such words");
  await says("#refusals-empty", "Nothing here");
  await page.fill("#refusals-filter", "");
});

async function lookAt(key) {
  await page.locator("#top-spent li", { hasText: key }).locator("button").click();
  await says("#client-quotas", "left");
}

test("resets a client, whose next request is let through", async () => {
  await until(async () => (await demo.ask("/v1/catalog", FREE)) === 429, "the client is refused");
  await lookAt("api_key:acme-free");
  await page.click("#client-reset");
  await says("#said", "Its limits start anew");
  await says("#client-quotas", "20 of 20 left");
  assert.equal(await demo.ask("/v1/catalog", FREE), 200);
  await page.keyboard.press("Escape");
});

test("blocks a client for some minutes, lists it, and lets it go", async () => {
  assert.equal(await demo.ask("/v1/catalog", PRO), 200);
  await lookAt("api_key:globex-pro");
  await page.fill("#client-minutes", "7");
  await page.fill("#client-reason", "<b>too much</b>");
  await page.click("#client-block");
  await says("#said", "kept out for 7 min");
  await page.keyboard.press("Escape");
  assert.equal(await demo.ask("/v1/catalog", PRO), 429);
  await says("#blocks-rows", "api_key:globex-pro");
  await says("#blocks-rows", "<b>too much</b>");
  await page.click("#blocks-rows button");
  await page.click("#confirm-yes");
  await page.locator("#blocks-empty:visible").waitFor(); // a hidden one has its words, too
  await says("#blocks-empty", "Nobody is blocked");
  assert.equal(await demo.ask("/v1/catalog", PRO), 200);
  assert.equal(demo.lines().filter((line) => line.includes(TOKEN)).length, 0);
});

test("says by which values a client cannot be looked up", async () => {
  await page.click("#find");
  await page.fill("#client-subjects [data-value]", "not an address");
  await page.click("#client-look");
  await says("#client-why", "not an address");
  await page.keyboard.press("Escape");
});

test("reads the policy file again, and says why a bad one was refused", async () => {
  const url = `redis+unix://${redis.path}`;
  demo.write("{ this is no JSON");
  await page.click("#policy-reload");
  await page.click("#confirm-yes");
  await says("#said", "nothing has changed");
  await says("#policy-why", "still in force");
  demo.write(policy(url, "30/minute"));
  await page.click("#policy-reload");
  await page.click("#confirm-yes");
  await says("#policies [data-limits]", "30/minute");
  await until(async () => !(await page.locator("#policy-why").isVisible()), "the alarm is gone");
  await page.click("#policy-show");
  await says("#text-body", '"30/minute"');
  await page.keyboard.press("Escape");
  page.complaints = complaintsBut(page, /Failed to load resource.* (4|5)\d\d/);
});

test("asks nothing while it is paused", async () => {
  await page.click("#pause");
  await until(async () => (await status()) === "paused", "the page says that it is paused");
  await page.waitForLoadState("networkidle");
  const seen = [];
  page.on("request", (request) => seen.push(request.url()));
  await page.evaluate(() => {
    for (let i = 0; i < 3; i++) dispatchEvent(new Event("focus"));
  });
  assert.deepEqual(seen, []);
  await page.click("#pause");
  await until(() => seen.length > 0, "it asks again");
  await until(async () => (await status()) === "live", "the page is live");
});

test("says that Redis is gone, and that it is back", async () => {
  const block = { policy: "public", ip: "192.0.2.9", seconds: 600 };
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` };
  const blocked = await fetch(`${demo.url}/admin/block`, { method: "POST", headers, body: JSON.stringify(block) });
  assert.equal(blocked.status, 200);
  await says("#blocks-rows", "ip:192.0.2.9/32");
  await redis.kill();
  await until(async () => {
    await demo.ask("/v1/catalog", PRO);
    return (await status()) === "store down";
  }, "the store is down");
  await says(".tile", "breaker open");
  await says("#refusals-rows", "failed-open");
  await until(
    async () => (await page.locator("#top-spent .quota").count()) === 0,
    "nothing is said of what they have left",
  );
  await says("#blocks-empty", "This is as of ");
  await redis.start();
  await until(async () => {
    await demo.ask("/v1/catalog", PRO);
    return (await status()) === "live";
  }, "the store is back");
  await says("#blocks-empty", "Nobody is blocked.");
  page.complaints = complaintsBut(page, /Failed to load resource.* 50\d/);
});

test("says since when the server has not answered, and goes on by itself", async () => {
  await page.context().setOffline(true);
  await says("#trouble", "The server does not answer.");
  await says("#trouble-since", "No news for");
  await until(async () => (await status()) === "no answer", "the status says so too");
  await page.context().setOffline(false);
  await until(async () => (await status()) === "live", "the page is live again");
  await until(async () => !(await page.locator("#trouble").isVisible()), "the trouble is over");
  page.complaints = complaintsBut(page, /ERR_INTERNET_DISCONNECTED/);
});

test("can be used without a mouse", async () => {
  await page.reload();
  await until(async () => (await status()) === "live", "the page is live");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "content");
  await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await says("#policies [data-readout]", "2 s ago");
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
  await page.keyboard.press("Escape");
  await page.focus("#find");
  await page.keyboard.press("Enter");
  await page.locator("#client[open]").waitFor();
  assert.ok(await page.evaluate(() => document.querySelector("#client").contains(document.activeElement)));
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.id), "find");
  assert.deepEqual(await page.evaluate(unnamed), []);
});

test("is readable in light and in dark", async () => {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    assert.deepEqual(await page.evaluate(contrasts, 4.5), [], scheme);
  }
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.click("#theme");
  assert.notEqual(await ground(), dark, "the switch says light where the system says dark");
  await page.click("#theme");
  await page.click("#theme");
  assert.equal(await ground(), dark);
});

test("fits a phone", async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  assert.deepEqual(await page.evaluate(wideParts), []);
  await page.click("#find");
  assert.deepEqual(await page.evaluate(wideParts), []);
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 1280, height: 900 });
});

test("asks for no token where the API wants none, and shows what the memory store has", async () => {
  const open = new Demo(policy("memory:"), null);
  await open.start();
  try {
    const other = await openPage(browser, `${open.url}/admin/dashboard`);
    await until(
      async () => (await other.locator("#status").innerText()) === "live",
      "the other page is live",
    );
    assert.equal(await other.locator("#token[open]").count(), 0);
    assert.equal(await other.locator("#sign-out").isVisible(), false);
    await open.ask("/v1/catalog", FREE);
    await until(
      async () => (await other.locator("#top-spent .quota").first().innerText()).includes("of 20 left"),
      "it shows what is left",
    );
    assert.deepEqual(other.complaints, []);
  } finally {
    await open.end();
  }
});

test("has not complained", () => {
  assert.deepEqual(page.complaints, []);
});
