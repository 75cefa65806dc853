// The page's arithmetic, without the page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { runInNewContext } from "node:vm";

const files = ["numbers.js", "explain.js"].map(
  (name) => new URL(`../../lib/admin/dashboard/${name}`, import.meta.url),
);
const NAMES = [
  "GROUPS",
  "groupOf",
  "groupCounts",
  "ratesBetween",
  "formatCount",
  "formatRate",
  "formatSpan",
  "formatLatency",
  "formatTick",
  "formatBytes",
  "niceCeiling",
  "bucketsSince",
  "quantile",
  "pauseAfter",
  "subjectOf",
  "isWhole",
  "subjectOfClient",
  "plainly",
  "baseOf",
  "stepsOf",
  "shutOutVerdict",
];
const page = runInNewContext(
  `${files.map((file) => readFileSync(file, "utf8")).join("\n")}; ({ ${NAMES.join(", ")} })`,
);

// Values of another context have other prototypes; and which blanks are hard does not matter here.
const plain = (value) => JSON.parse(JSON.stringify(value).replaceAll("\u00a0", " "));

function table(name, rows, decide) {
  test(name, () => {
    for (const [when, wanted, ...given] of rows)
      assert.deepEqual(plain(decide(...given) ?? null), wanted, when);
  });
}

table(
  "puts every outcome into a group, what is unknown among the refusals",
  [
    ["a plain allow", "allowed", "allowed"],
    ["shadow", "shadow", "shadow-limited"],
    ["429", "refused", "limited"],
    ["401", "refused", "unauthenticated"],
    ["let through because of a failure", "failed", "failed-open"],
    ["refused because of a failure", "failed", "failed-closed"],
    ["an outcome of a later version", "refused", "surprised"],
  ],
  page.groupOf,
);

table(
  "shows what is no sign of its own as its number",
  [
    ["a path", "/v1/a b?c", "/v1/a b?c"],
    ["letters of any script, and a face", "é א 漢 😀", "é א 漢 😀"],
    ["what turns the direction", "a\\u{202e}b", "a\u202eb"],
    ["controls", "\\u{001b}[2J\\u{000a}\\u{0009}\\u{009b}", "\u001b[2J\n\t\u009b"],
    ["what has no width", "a\\u{200b}\\u{feff}\\u{00ad}", "a\u200b\ufeff\u00ad"],
    ["the end of a line", "\\u{2028}", "\u2028"],
    ["beyond the first plane", "\\u{e0041}", "\u{e0041}"],
    ["half a pair", "\\u{d800}", "\ud800"],
    ["a number", "7", 7],
  ],
  page.plainly,
);

table(
  "adds up the decisions of a policy",
  [
    [
      "several of a group",
      [7, 2, 5, 1],
      { allowed: 7, limited: 3, impossible: 2, "shadow-limited": 2, "failed-open": 1 },
    ],
    ["none", [0, 0, 0, 0], undefined],
  ],
  page.groupCounts,
);

table(
  "makes rates of counters",
  [
    ["over two seconds", [5, 0], [10, 4], [20, 4], 2],
    ["no time has passed", null, [1], [2], 0],
    ["a counter began anew", null, [10], [3], 1],
  ],
  page.ratesBetween,
);

table(
  "writes counts with three figures or more",
  [
    ["small", "0", 0],
    ["thousands", "12\u202f345", 12345],
    ["many", "123\u202fk", 123456],
    ["a million", "1.2\u202fM", 1234567],
  ],
  page.formatCount,
);

table(
  "writes rates",
  [
    ["none", "0", 0],
    ["next to none is not none", "<0.1", 0.01],
    ["a few", "3.4", 3.42],
    ["many", "1\u202f234", 1234.4],
  ],
  page.formatRate,
);

table(
  "writes spans",
  [
    ["none", "0 s", 0],
    ["less than a second", "250 ms", 0.25],
    ["seconds", "119 s", 119.9],
    ["minutes", "2 min", 120],
    ["hours", "1 h 05 min", 3900],
    ["days", "3 d 4 h", 3 * 86400 + 4 * 3600],
    ["as long as a block may be", "71 years", 71 * 365.25 * 86400],
  ],
  page.formatSpan,
);

table(
  "writes latencies in the unit that fits",
  [
    ["unknown", "–", null],
    ["microseconds", "87.5 µs", 87.5e-6],
    ["the edge to milliseconds", "1.00 ms", 0.0009996],
    ["milliseconds", "12.3 ms", 0.01234],
    ["seconds", "2.50 s", 2.5],
  ],
  page.formatLatency,
);

table(
  "writes a scale without figures that say nothing",
  [
    ["zero", "0", 0],
    ["whole", "100 ms", 0.1],
    ["half", "2.5 ms", 0.0025],
    ["round", "50 µs", 50e-6],
  ],
  page.formatTick,
);

table(
  "writes bytes",
  [
    ["few", "512 B", 512],
    ["many", "17.5 MiB", 18400000],
  ],
  page.formatBytes,
);

table(
  "finds a round top for a scale",
  [
    ["nothing", 1, 0],
    ["just a number", 2, 1.2],
    ["exactly round", 50, 50],
    ["a fraction", 0.005, 0.0041],
  ],
  page.niceCeiling,
);

const buckets = [
  [0.25, 10],
  [0.75, 90],
  [null, 100],
];
table(
  "reads quantiles from a histogram",
  [
    ["in the middle of a bucket", 0.5, buckets, 0.5],
    ["beyond the last bound", 0.75, buckets, 0.99],
    [
      "nothing has been asked",
      null,
      [
        [0.001, 0],
        [null, 0],
      ],
      0.5,
    ],
    ["no histogram", null, [], 0.5],
  ],
  (given, part) => page.quantile(given, part),
);

table(
  "takes an earlier histogram away",
  [
    [
      "from a later one",
      [
        [0.001, 2],
        [null, 4],
      ],
      [
        [0.001, 1],
        [null, 2],
      ],
      [
        [0.001, 3],
        [null, 6],
      ],
    ],
    [
      "but not after a restart",
      [
        [0.001, 1],
        [null, 1],
      ],
      [
        [0.001, 5],
        [null, 9],
      ],
      [
        [0.001, 1],
        [null, 1],
      ],
    ],
    [
      "where there is no earlier one",
      [
        [0.001, 1],
        [null, 1],
      ],
      undefined,
      [
        [0.001, 1],
        [null, 1],
      ],
    ],
  ],
  page.bucketsSince,
);

table(
  "asks less often when nobody watches or nobody answers",
  [
    ["watched", 1, 0, false],
    ["in the background", 15, 0, true],
    ["the first failure", 1, 1, false],
    ["the third", 4, 3, false],
    ["for good", 10, 50, false],
  ],
  page.pauseAfter,
);

table(
  "knows by what to look a label up",
  [
    ["an API key", { api_key: "acme:free" }, "api_key:acme:free"],
    ["a network", { ip: "2001:db8::" }, "ip:2001:db8::/56"],
    ["a tenant with a slash", { tenant: "a/24" }, "tenant:a/24"],
    ["a composite", { ip: "192.0.2.0", route: "/v1/*" }, "ip:192.0.2.0/24 + route:/v1/*"],
    [
      "what is hashed has to be said",
      { user: "", "field:user name": "" },
      "user#Zm9vYmFyMT + field:user name#1f3a9c0d12",
    ],
    ["everybody", null, "global"],
    ["nothing", null, null],
  ],
  page.subjectOf,
);

table(
  "looks up only what is wholly known",
  [
    ["known", true, { ip: "192.0.2.1" }],
    ["partly hashed", false, { ip: "192.0.2.1", user: "" }],
    ["nobody", false, null],
  ],
  page.isWhole,
);

table(
  "tells a network from an API key's id",
  [
    ["IPv4", { ip: "192.0.2.0" }, "192.0.2.0/24"],
    ["IPv6", { ip: "2001:db8::" }, "2001:db8::/56"],
    ["an id", { api_key: "acme-free" }, "acme-free"],
    ["nobody", null, undefined],
  ],
  page.subjectOfClient,
);

table(
  "finds the API below whatever it was mounted at",
  [
    ["the mount itself", "/admin", "/admin"],
    ["with a slash", "/ops/admin", "/ops/admin/"],
    ["by its name", "/admin", "/admin/dashboard"],
  ],
  page.baseOf,
);

const explained = {
  request: { method: "GET", path: "/v1/catalog" },
  address: {
    peer: "10.0.0.1",
    header: "X-Forwarded-For",
    client: "203.0.113.9",
    counted_as: "203.0.113.0/24",
    hops: [
      { speaker: "10.0.0.1", trusted: true, said: "203.0.113.9", believed: true },
      { speaker: "203.0.113.9", trusted: false, said: "1.1.1.1", believed: false },
    ],
  },
  identity: { api_key: "acme-free", api_key_unknown: false, user: null, tenant: "acme", plan: "free" },
  lists: [],
  route: {
    tried: [
      { match: "* /healthz", fits: false, why_not: "another path" },
      { match: "* /v1/*", fits: true, why_not: null },
    ],
    auth: "required",
  },
  policy: { name: "api", mode: "enforce", enforce_percent: 100, here: "enforce", cost: 1 },
  limits: [
    {
      name: "burst",
      by: "client",
      applies: true,
      key: "api_key:acme-free",
      algorithm: "gcra",
      rate: "5/second",
      burst: 10,
      plan: "free",
      quota: 10,
      remaining: 0,
      passes: false,
      retry_us: 200000,
    },
    { name: "user", by: "user", applies: false, why_not: "no user" },
  ],
  verdict: { outcome: "limited", status: 429, limit: "burst", headers: [["Retry-After", "1"]] },
  hints: [],
};

test("tells an explanation step by step, and which step refused", () => {
  const steps = plain(page.stepsOf(explained));
  assert.deepEqual(
    steps.map(({ title }) => title),
    ["Address", "Identity", "Route", "Policy", "Limits, as they are now", "Answer, if it were asked now"],
  );
  assert.deepEqual(steps[0].lines, [
    "10.0.0.1 is trusted, and says it asks for 203.0.113.9",
    "203.0.113.9 is not trusted; what it says (1.1.1.1) is not believed",
    "so the client is 203.0.113.9, counted as 203.0.113.0/24",
  ]);
  assert.equal(steps[1].text, "API key acme-free, tenant acme, plan free");
  assert.deepEqual(steps[4], {
    title: "Limits, as they are now",
    against: true,
    lines: [
      "burst of api_key:acme-free (gcra 5/second, burst 10, plan free): 0 of 10 left, too few for 200 ms",
      "user by user does not apply: no user",
    ],
  });
  assert.deepEqual(steps[5], {
    title: "Answer, if it were asked now",
    text: "limited, status 429",
    lines: ["Retry-After: 1"],
    against: true,
  });
});

test("tells of a decision as it was", () => {
  const steps = plain(
    page.stepsOf({
      request: {},
      route: { tried: [], auth: "required", policy: "api" },
      limits: explained.limits,
      decided: {},
      verdict: explained.verdict,
    }),
  );
  assert.deepEqual(
    steps.map(({ title }) => title),
    ["Route", "Limits, as they were", "Answer"],
  );
});

table(
  "tells who has too many requests at once",
  [
    [
      "a client that was refused",
      { title: "Requests at once", against: true, lines: ["2 at once for ip:192.0.2.7/32"] },
      { concurrency: { passes: false, at_once: 2, by: "ip", key: "ip:192.0.2.7/32" } },
    ],
    [
      "a back end that had enough",
      { title: "Requests at once", against: true, lines: ["as many in group db as it takes at once, 24"] },
      { concurrency: { passes: false, group: "db", group_limit: 24 } },
    ],
    [
      "one that has room",
      { title: "Requests at once", against: false, lines: ["3 of 24 under way in group db"] },
      { concurrency: { group: "db", group_limit: 24, group_under_way: 3 } },
    ],
  ],
  (explanation) => page.stepsOf(explanation)[0],
);

test("tells who has blocked a key, and what has banned it", () => {
  const [burst] = explained.limits;
  const blocked = {
    ...burst,
    blocked: true,
    blocked_until: "2026-03-04T05:06:07.000Z",
    block: { by: "ann", reason: "abuse" },
  };
  const banned = { ...burst, banned: true, banned_until: "2026-03-04T05:06:07.000Z" };
  const verdict = { ...explained.verdict, policy: "api" };
  const lineOf = (limit) => plain(page.stepsOf({ limits: [limit] }))[0].lines[0];
  const verdictOf = (limit) => page.shutOutVerdict({ limits: [limit], verdict }, "acme-free");
  assert.match(lineOf(blocked), /: blocked by ann until 2026-03-04T05:06:07.000Z: abuse$/);
  assert.match(lineOf({ ...blocked, block: null }), /: blocked until 2026-03-04T05:06:07.000Z$/);
  assert.match(lineOf(banned), /: banned by its penalty until 2026-03-04T05:06:07.000Z$/);
  assert.equal(
    verdictOf(blocked),
    "acme-free is blocked by ann until 2026-03-04T05:06:07.000Z: abuse. That is limit “burst” of policy “api”.",
  );
  assert.equal(verdictOf(burst), null);
});

test("tells what there is of an explanation", () => {
  assert.deepEqual(plain(page.stepsOf({})), []);
});
