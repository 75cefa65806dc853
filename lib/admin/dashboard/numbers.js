/* Arithmetic and words. Nothing here touches the page, so that it can be tested without one. */

const GROUPS = ["allowed", "shadow", "refused", "failed"];

/* What an outcome means for the client: whatever is new counts as a refusal. */
function groupOf(outcome) {
  if (outcome === "allowed") return "allowed";
  if (outcome === "shadow-limited") return "shadow";
  return outcome.startsWith("failed") ? "failed" : "refused";
}

/* The decisions of one policy by group, in the order of GROUPS. */
function groupCounts(decisions) {
  const counts = GROUPS.map(() => 0);
  for (const [outcome, count] of Object.entries(decisions ?? {}))
    counts[GROUPS.indexOf(groupOf(outcome))] += count;
  return counts;
}

/* Per second, of counters that only grow; null where they began anew in between (a restart). */
function ratesBetween(before, after, seconds) {
  if (!(seconds > 0) || after.some((count, i) => count < before[i])) return null;
  return after.map((count, i) => (count - before[i]) / seconds);
}

function grouped(number) {
  return Math.round(number)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function formatCount(number) {
  if (number < 1e5) return grouped(number);
  const [unit, word] = number < 1e6 ? [1e3, "k"] : number < 1e9 ? [1e6, "M"] : [1e9, "G"];
  const scaled = number / unit;
  return `${scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)}\u202f${word}`;
}

function formatRate(perSecond) {
  if (perSecond === 0) return "0";
  if (perSecond < 0.05) return "<0.1";
  return perSecond < 10 ? perSecond.toFixed(1) : formatCount(perSecond);
}

/* A number and its unit stay in one line. */
const SPACE = "\u00a0";

/* A length of time in one unit or two: "740 ms", "12 s", "5 min", "2 h 05 min", "3 d 4 h". */
function formatSpan(seconds) {
  if (seconds < 1) return seconds <= 0 ? `0${SPACE}s` : formatLatency(seconds);
  const whole = Math.floor(seconds);
  const [days, hours, minutes] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  if (days >= 730) return `${Math.floor(days / 365)}${SPACE}years`;
  if (days > 0) return hours > 0 ? `${days}${SPACE}d ${hours}${SPACE}h` : `${days}${SPACE}d`;
  if (hours > 0) return `${hours}${SPACE}h ${String(minutes).padStart(2, "0")}${SPACE}min`;
  return whole < 120 ? `${whole}${SPACE}s` : `${minutes}${SPACE}min`;
}

/* Three figures, in the unit that fits. */
function formatLatency(seconds) {
  if (seconds == null) return "–";
  const [scaled, unit] =
    seconds >= 0.9995 ? [seconds, "s"] : seconds >= 0.0009995 ? [seconds * 1e3, "ms"] : [seconds * 1e6, "µs"];
  return `${scaled.toFixed(scaled >= 100 ? 0 : scaled >= 10 ? 1 : 2)}${SPACE}${unit}`;
}

/* A number of a scale: it is round, so it needs no more figures than it has. */
function formatTick(seconds) {
  return formatLatency(seconds)
    .replace(/\.(\d*?)0+(?=\s)/, (all, digits) => (digits ? `.${digits}` : ""))
    .replace(/^0\s.*/, "0");
}

function formatBytes(bytes) {
  const power = bytes < 1024 ? 0 : bytes < 1048576 ? 1 : bytes < 1073741824 ? 2 : 3;
  const scaled = bytes / 1024 ** power;
  const unit = ["B", "KiB", "MiB", "GiB"][power];
  return `${scaled.toFixed(power === 0 || scaled >= 100 ? 0 : 1)}${SPACE}${unit}`;
}

/* The smallest 1, 2 or 5 with zeros that is not below `number`. */
function niceCeiling(number) {
  if (!(number > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  const step = [1, 2, 5, 10].find((one) => number <= one * power * (1 + 1e-9));
  return step * power;
}

/* Cumulative buckets [[upper_s or null, count], …] of a histogram, less those of an earlier one. */
function bucketsSince(before, after) {
  const earlier = new Map((before ?? []).map(([upper, count]) => [String(upper), count]));
  const since = after.map(([upper, count]) => [upper, count - (earlier.get(String(upper)) ?? 0)]);
  return since.some(([, count]) => count < 0) ? after : since;
}

/* The value that `part` (0 to 1) of the answers are not above: in a straight line within its
 * bucket. Null without an answer; the last bound where it lies beyond all of them. */
function quantile(buckets, part) {
  const total = buckets.length === 0 ? 0 : buckets[buckets.length - 1][1];
  if (total === 0) return null;
  let [lower, below] = [0, 0];
  for (const [upper, count] of buckets) {
    if (!Number.isFinite(upper) || upper === null) return lower;
    if (count >= part * total)
      return lower + ((upper - lower) * (part * total - below)) / (count - below || 1);
    [lower, below] = [upper, count];
  }
  return lower;
}

/* Seconds until the next question. A failing server is asked ever less often, and so is one that
 * nobody watches. */
function pauseAfter(failures, hidden) {
  if (failures > 0) return Math.min(2 ** (failures - 1), 10);
  return hidden ? 15 : 1;
}

/* "ip:192.0.2.0/24 + field:username#1f3a9c0d12" → {ip: "192.0.2.0", "field:username": ""}: what the admin
 * API wants to know to look such a key up. What is hashed in the label is left for the operator to say.
 * Null where the label names nobody. */
function subjectOf(label) {
  const subject = {};
  for (const part of (label ?? "").split(" + ")) {
    const [, kind, value] = /^(api_key|user|tenant|ip|plan|route):(.*)$/s.exec(part) ?? [];
    const hashed = /^((?:user|tenant|(?:field|header|query|param):[^#]+))#/.exec(part);
    if (kind) subject[kind] = kind === "ip" ? value.replace(/\/\d+$/, "") : value;
    else if (hashed) subject[hashed[1]] = "";
  }
  return Object.keys(subject).length > 0 ? subject : null;
}

/* Whether all that the subject is known by is said. */
function isWhole(subject) {
  return subject !== null && Object.values(subject).every((value) => value !== "");
}

/* The client of a log's line, where the key says nothing: an API key's id, or a network. */
function subjectOfClient(client) {
  if (!client) return null;
  return /^[0-9a-fA-F.:]+(\/\d+)?$/.test(client) ? { ip: client.replace(/\/\d+$/, "") } : { api_key: client };
}

/* What is no sign of its own, such as a control character or one that turns the direction of what is
 * around it, would let one text read as another: "\u{202e}" in its place. */
function plainly(text) {
  return String(text).replace(
    /[\p{C}\p{Zl}\p{Zp}]/gu,
    (sign) => `\\u{${sign.codePointAt(0).toString(16).padStart(4, "0")}}`,
  );
}

/* The policy file's short word for what limits are mostly counted by. */
function byWords(by) {
  return by === "api_key|user|tenant|ip" ? "client" : by;
}

/* Below whatever the page was mounted at: "/admin", "/admin/" and "/admin/dashboard" are one page. */
function baseOf(path) {
  return path.replace(/\/(dashboard\/?)?$/, "");
}
