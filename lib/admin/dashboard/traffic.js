/* What is asked and refused: the tiles at the top, and a chart for each policy. */

const history = { samples: [], points: new Map(), latency: [] };

/* Rates jump about from second to second; the numbers are of the last few. */
const STEADY_S = 5;

function takeSample(stats) {
  const sample = {
    at: stats.time_us / 1e6,
    stats,
    counts: new Map((stats.policies ?? []).map((policy) => [policy.name, groupCounts(policy.decisions)])),
  };
  const last = history.samples[history.samples.length - 1];
  if (last && sample.at <= last.at) history.samples.length = 0;
  else if (last) addPoints(last, sample);
  if (last && hasBegunAnew(last, sample)) refusals.startAnew();
  history.samples.push(sample);
  const oldest = sample.at - SPAN_S - 20;
  while (history.samples[0].at < oldest) history.samples.shift();
  for (const points of history.points.values())
    while (points.length > 0 && points[0].at < oldest) points.shift();
}

/* After a restart of the server its counters begin at nothing. */
function hasBegunAnew(last, sample) {
  return [...sample.counts].some(([name, counts]) =>
    counts.some((count, i) => count < (last.counts.get(name)?.[i] ?? 0)),
  );
}

function addPoints(last, sample) {
  const seconds = sample.at - last.at;
  for (const [name, counts] of sample.counts) {
    const before = last.counts.get(name) ?? GROUPS.map(() => 0);
    if (!history.points.has(name)) history.points.set(name, []);
    history.points.get(name).push({ at: sample.at, seconds, values: ratesBetween(before, counts, seconds) });
  }
}

function newestSample() {
  return history.samples[history.samples.length - 1];
}

/* The sample of about `seconds` ago that the newest is compared with. */
function sampleBefore(seconds) {
  const newest = newestSample();
  return history.samples.find((sample) => sample.at >= newest.at - seconds - 0.5);
}

function ratesOf(name) {
  const [before, newest] = [sampleBefore(STEADY_S), newestSample()];
  const zero = GROUPS.map(() => 0);
  return (
    ratesBetween(before.counts.get(name) ?? zero, newest.counts.get(name) ?? zero, newest.at - before.at) ??
    zero
  );
}

function rateOf(read) {
  const [before, newest] = [sampleBefore(STEADY_S), newestSample()];
  const rates = ratesBetween([read(before.stats) ?? 0], [read(newest.stats) ?? 0], newest.at - before.at);
  return rates ? rates[0] : 0;
}

/* policies */

const charts = new WeakMap();

function makePolicyCard(policy) {
  const card = fromTemplate("policy-card");
  const title = policy.name === "" ? "no policy" : policy.name;
  setText(part(card, "name"), title);
  const readout = part(card, "readout");
  /* The box has its size only when it is on the page. */
  queueMicrotask(() =>
    charts.set(
      card,
      new TimeChart(part(card, "chart"), {
        label: `Requests a second for ${title}`,
        series: GROUPS,
        stacked: true,
        least: 1,
        format: (rate) => (Number.isInteger(rate) ? formatCount(rate) : rate.toFixed(1)),
        onRead: (values, picked) =>
          showReadout(readout, picked === null ? ratesOf(policy.name) : values, picked),
      }),
    ),
  );
  return card;
}

function showReadout(readout, values, picked) {
  const ago = picked === null ? "" : `${formatSpan(picked)} ago: `;
  if (!values) return setText(readout, `${ago}no data`);
  const words = ["allowed", "in shadow", "refused", "failed"];
  setText(
    readout,
    ago +
      values
        .map((value, i) => (value > 0 || i === 0 || i === 2 ? `${formatRate(value)} ${words[i]}` : null))
        .filter(Boolean)
        .join(" · ") +
      " /s",
  );
}

function modeWords(policy) {
  if (policy.mode === "off") return "off";
  if (policy.mode === "shadow") return "shadow: refuses nobody";
  return policy.enforce_percent != null && policy.enforce_percent < 100
    ? `enforced for ${policy.enforce_percent} %`
    : "";
}

function showPolicyCard(card, policy) {
  const badge = part(card, "mode");
  badge.hidden = modeWords(policy) === "";
  badge.dataset.mode = policy.mode;
  setText(badge, modeWords(policy));
  keepList(
    part(card, "limits"),
    policy.limits ?? [],
    (limit) => limit.name,
    () => make("li", {}, make("b"), make("span")),
    (node, limit) => {
      setText(node.firstChild, limit.name);
      setText(node.lastChild, ` ${limit.rate ?? ""} by ${byWords(limit.by)}`);
      setTitle(node, limit.algorithm);
    },
  );
  queueMicrotask(() => charts.get(card)?.show(history.points.get(policy.name) ?? [], newestSample().at));
}

function isShown(policy) {
  return policy.name !== "" || groupCounts(policy.decisions).some((count) => count > 0);
}

function showPolicies(stats) {
  keepList(
    byId("policies"),
    (stats.policies ?? []).filter(isShown),
    (policy) => policy.name,
    makePolicyCard,
    showPolicyCard,
  );
}

/* tiles */

function isDown(store) {
  return store.answering === false || store.breaker === "open";
}

function breakerTile(store) {
  const isRemote = store.name?.startsWith("redis");
  const state = isDown(store) ? "bad" : store.breaker === "closed" ? null : "warn";
  return {
    term: "Store",
    value: store.answering === false ? "silent" : "answers",
    more: [
      store.down_s > 0 ? `for ${formatSpan(store.down_s)}` : store.name,
      isRemote ? `breaker ${store.breaker}` : null,
    ]
      .filter(Boolean)
      .join(", "),
    state,
  };
}

function tilesOf(stats) {
  const all = (stats.policies ?? [])
    .map((policy) => ratesOf(policy.name))
    .reduce(
      (sum, rates) => sum.map((one, i) => one + rates[i]),
      GROUPS.map(() => 0),
    );
  const total = all.reduce((sum, one) => sum + one, 0);
  const share = (one) =>
    total > 0 ? `${((100 * one) / total).toFixed(one / total < 0.1 && one > 0 ? 1 : 0)} % of all` : "";
  const latency = latencyOfLast(stats);
  const store = stats.store ?? {};
  return [
    { term: "Allowed", value: formatRate(all[0]), unit: "/s", more: share(all[0]) },
    {
      term: "Refused",
      value: formatRate(all[2]),
      unit: "/s",
      more: share(all[2]),
      state: total > 0 && all[2] / total > 0.5 ? "warn" : null,
    },
    { term: "Let through in shadow", value: formatRate(all[1]), unit: "/s", more: share(all[1]) },
    {
      term: "Store failed",
      value: formatRate(all[3]),
      unit: "/s",
      more: share(all[3]),
      state: all[3] > 0 ? "bad" : null,
    },
    breakerTile(store),
    {
      term: "Store latency",
      value: formatLatency(latency.half),
      more: latency.most == null ? "no answer lately" : `p99 ${formatLatency(latency.most)}`,
    },
    { term: "Waiting requests", value: formatCount(stats.parked ?? 0), more: "parked now" },
    {
      term: "Leases",
      value: formatCount(stats.leases?.held ?? 0),
      more: `units held, ${formatCount(stats.leases?.given_back ?? 0)} given back`,
    },
    {
      term: "Repeated refusals",
      value: formatRate(rateOf((one) => one.denials?.replayed)),
      unit: "/s",
      more: "without asking the store",
    },
    {
      term: "Memory",
      value: formatBytes(stats.memory?.bytes ?? 0),
      more: `${formatCount(stats.memory?.keys ?? 0)} keys, ${formatCount(stats.memory?.evictions ?? 0)} evicted`,
    },
  ];
}

function showTiles(stats) {
  keepList(
    byId("tiles"),
    tilesOf(stats),
    (tile) => tile.term,
    (tile) =>
      make(
        "div",
        { class: "tile" },
        make("dt", {}, tile.term),
        make("dd", { class: "value" }, make("span"), make("small")),
        make("dd", { class: "more clip" }),
      ),
    (node, { value, unit, more, state }) => {
      setText(node.children[1].firstChild, value);
      setText(node.children[1].lastChild, unit ? ` ${unit}` : "");
      setText(node.children[2], more);
      setState(node, state);
    },
  );
}
