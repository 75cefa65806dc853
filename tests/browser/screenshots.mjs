// Makes docs/dashboard-*.png: a demo under a few minutes of load by clients of several kinds, as
// Chromium shows it. Takes four minutes; not a test.
import { fileURLToPath } from "node:url";
import { Demo, Redis, TOKEN, openPage, startBrowser, until } from "./support.mjs";

const LOAD_MS = 190000;
const TICK_MS = 100;

const policy = (store) => ({
  store: { url: store },
  client_ip: { trust: ["loopback"], header: "X-Forwarded-For" },
  api_keys: { header: "X-API-Key", file: "api-keys.json" },
  secret: "for-these-pictures-only-and-nothing-else",
  plans: {
    free: { burst: { rate: "5/second", burst: 10 }, daily: "1000/day" },
    pro: { burst: { rate: "50/second", burst: 100 }, daily: "100000/day" },
  },
  policies: {
    api: {
      limits: [
        { name: "burst", by: "client", rate: "plan" },
        {
          name: "daily",
          by: "tenant|client",
          rate: "plan",
          algorithm: "fixed-window",
          calendar: "UTC",
        },
      ],
    },
    search: { mode: "shadow", limits: [{ name: "minute", by: "client", rate: "200/minute" }] },
    public: { limits: [{ name: "address", by: "ip", rate: "60/minute" }] },
  },
  routes: [
    { match: "* /healthz", auth: "none" },
    { match: "GET /v1/search", auth: "required", policy: "search" },
    { match: "* /v1/*", auth: "required", policy: "api" },
  ],
  default: "public",
});

// Each asks so many times a second on average: a partner in bursts, a steady one, and addresses.
const clients = [
  {
    headers: { "X-API-Key": "free-demo-key", "X-Forwarded-For": "203.0.113.7" },
    path: "/v1/catalog",
    rate: (s) => (s % 10 < 2 ? 20 : 1),
  },
  {
    headers: { "X-API-Key": "pro-demo-key", "X-Forwarded-For": "198.51.100.20" },
    path: "/v1/catalog",
    rate: (s) => 22 + 14 * Math.sin(s / 14),
  },
  {
    headers: { "X-API-Key": "pro-demo-key", "X-Forwarded-For": "198.51.100.20" },
    path: "/v1/search?q=gate",
    rate: (s) => 3.4 + 2 * Math.sin(s / 23),
  },
  { headers: { "X-Forwarded-For": "192.0.2.44" }, path: "/ip", rate: (s) => (s > 60 && s < 130 ? 5 : 0.6) },
  { headers: { "X-Forwarded-For": "2001:db8:77::1" }, path: "/ip", rate: () => 0.8 },
  { headers: { "X-Forwarded-For": "203.0.113.90" }, path: "/prices", rate: () => 1.2 },
];

function startLoad(demo) {
  const started = Date.now();
  const due = clients.map(() => 0);
  const timer = setInterval(
    () =>
      clients.forEach(({ headers, path, rate }, i) => {
        due[i] += (Math.max(0, rate((Date.now() - started) / 1000)) * TICK_MS) / 1000;
        for (; due[i] >= 1; due[i]--) demo.ask(path, headers).catch(() => {});
      }),
    TICK_MS,
  );
  return () => clearInterval(timer);
}

async function signIn(browser, demo, options) {
  const page = await openPage(browser, `${demo.url}/admin`, options);
  await page.fill("#token-value", TOKEN);
  await page.keyboard.press("Enter");
  await until(async () => (await page.locator("#status").innerText()) === "live", "the page is live");
  return page;
}

const picture = (name) => fileURLToPath(new URL(`../../docs/dashboard-${name}.png`, import.meta.url));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function take(browser, demo) {
  const light = await signIn(browser, demo, {
    colorScheme: "light",
    viewport: { width: 1200, height: 860 },
  });
  const dark = await signIn(browser, demo, { colorScheme: "dark", viewport: { width: 1000, height: 780 } });
  const phone = await signIn(browser, demo, {
    colorScheme: "light",
    viewport: { width: 360, height: 740 },
  });
  await pause(LOAD_MS);
  await light.screenshot({ path: picture("light") });
  await dark.locator("#refusals-rows tr", { hasText: "burst" }).first().locator("button").click();
  await pause(1500);
  await dark.screenshot({ path: picture("dark") });
  await phone.evaluate(() => document.querySelector("#clients").scrollIntoView());
  await pause(1500);
  await phone.screenshot({ path: picture("phone") });
}

const redis = new Redis();
const demo = new Demo(policy(`redis+unix://${redis.path}`));
await redis.start();
await demo.start();
const browser = await startBrowser();
const stop = startLoad(demo);
await take(browser, demo);
stop();
await browser.close();
await demo.end();
await redis.end();
