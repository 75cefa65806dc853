/* The store: how it is, and how long its answers take. */

function latencyBetween(before, after) {
  const buckets = bucketsSince(before?.store?.latency?.buckets, after.store?.latency?.buckets ?? []);
  return { half: quantile(buckets, 0.5), most: quantile(buckets, 0.99), buckets };
}

function latencyOfLast(stats) {
  return latencyBetween(sampleBefore(STEADY_S).stats, stats);
}

const storeView = {
  start() {
    this.curve = new TimeChart(byId("latency-chart"), {
      label: "Store latency",
      series: ["median", "slow"],
      stacked: false,
      least: 0.0001,
      format: formatTick,
      onRead: (values, picked) =>
        setText(
          byId("latency-now"),
          (picked === null ? "" : `${formatSpan(picked)} ago: `) +
            (values?.[0] == null
              ? "no answers"
              : `p50 ${formatLatency(values[0])} · p99 ${formatLatency(values[1])}`),
        ),
    });
    this.columns = new Columns(byId("histogram-chart"), "How long the store's answers took");
  },

  words(store) {
    const where = [store.name, store.server && store.server !== store.name ? `at ${store.server}` : null]
      .filter(Boolean)
      .join(" ");
    if (store.answering === false)
      return `${where} has not answered for ${formatSpan(store.down_s ?? 0)}${store.why ? `: ${store.why}` : ""}`;
    return `${where} answers`;
  },

  show(stats) {
    const now = newestSample().at;
    const latency = latencyOfLast(stats);
    history.latency.push({
      at: now,
      seconds: 1,
      values: latency.half == null ? null : [latency.half, latency.most],
    });
    while (history.latency[0].at < now - SPAN_S - 20) history.latency.shift();
    this.curve.show(history.latency, now);
    this.showColumns(latencyBetween(history.samples[0].stats, stats).buckets);
    setText(byId("store-words"), this.words(stats.store ?? {}));
  },

  /* Buckets at either end that hold nothing are left out. */
  showColumns(buckets) {
    const total = buckets.length === 0 ? 0 : buckets[buckets.length - 1][1];
    const each = buckets.map(([upper, count], i) => [upper, count - (i === 0 ? 0 : buckets[i - 1][1])]);
    const first = each.findIndex(([, count]) => count > 0);
    const last = each.findLastIndex(([, count]) => count > 0);
    const shown = total === 0 ? [] : each.slice(Math.max(0, first - 1), last + 2);
    this.columns.show(
      shown.map(([upper, count]) => [
        Number.isFinite(upper) && upper !== null ? `≤ ${formatTick(upper)}` : "more",
        count / total,
      ]),
    );
    setText(byId("histogram-now"), total === 0 ? "no answers" : `${formatCount(total)} answers`);
  },
};
