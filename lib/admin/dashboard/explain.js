/* What the admin API explains, as steps to read. Nothing here touches the page. */

const ROUTES_SHOWN = 8;

/* What has been decided is told as it was then; what is only described, as it would be now. */
function stepsOf(explained) {
  const steps = [
    addressStep,
    identityStep,
    listsStep,
    routeStep,
    policyStep,
    limitsStep,
    concurrencyStep,
    answerStep,
    hintsStep,
  ];
  return steps.map((step) => step(explained)).filter(Boolean);
}

function addressStep({ address }) {
  if (!address) return null;
  const lines = (address.hops ?? []).map((hop) => {
    const said =
      hop.said == null
        ? ""
        : hop.believed
          ? `, and says it asks for ${hop.said}`
          : `; what it says (${hop.said}) is not believed`;
    return `${hop.speaker ?? "somebody"} is ${hop.trusted ? "" : "not "}trusted${said}`;
  });
  if (lines.length === 0) lines.push(`the other end is ${address.peer ?? "no address"}`);
  if (address.client) lines.push(`so the client is ${address.client}, counted as ${address.counted_as}`);
  return { title: "Address", lines };
}

function identityStep({ identity }) {
  if (!identity) return null;
  const named = [
    ["API key", identity.api_key],
    ["user", identity.user],
    ["tenant", identity.tenant],
    ["plan", identity.plan],
  ]
    .filter(([, value]) => value != null)
    .map(([what, value]) => `${what} ${value}`);
  if (identity.api_key_unknown) named.unshift("an API key that nobody was given");
  return {
    title: "Identity",
    text: named.length > 0 ? named.join(", ") : "nobody but the address",
    against: identity.api_key_unknown,
  };
}

function listsStep({ lists }) {
  if (!lists?.length) return null;
  return {
    title: "Lists",
    against: lists.some(({ says, names }) => says === "deny" && names != null),
    lines: lists.map(
      ({ of, says, names }) =>
        `the ${says} list of ${of} ${names == null ? "does not name this client" : `names ${names}`}`,
    ),
  };
}

function routeStep({ route }) {
  if (!route) return null;
  const tried = route.tried ?? [];
  const lines = tried
    .slice(-ROUTES_SHOWN)
    .map(({ match, fits, why_not: why }) => `${match}: ${fits ? "fits" : (why ?? "does not fit")}`);
  if (tried.length > ROUTES_SHOWN)
    lines.unshift(`${tried.length - ROUTES_SHOWN} routes before these do not fit`);
  if (route.default) lines.push("no route fits, and the file's default is taken");
  if (route.auth) lines.push(`identity is ${route.auth === "none" ? "not asked for" : route.auth}`);
  return { title: "Route", lines };
}

function policyStep({ policy, route }) {
  if (policy === undefined) return null;
  if (policy === null) return route ? { title: "Policy", text: "none: the route is not limited" } : null;
  const part =
    policy.enforce_percent < 100 ? `, enforced for ${policy.enforce_percent} % of the clients` : "";
  const here = policy.here && policy.here !== policy.mode ? `; for this client it is ${policy.here}` : "";
  return {
    title: "Policy",
    text: `${policy.name}, mode ${policy.mode}${part}${here}. This request costs ${policy.cost}.`,
  };
}

function limitWords(limit) {
  if (!limit.applies)
    return `${limit.name} by ${byWords(limit.by)} does not apply: ${limit.why_not ?? "its value is absent"}`;
  const rate = [
    limit.rate,
    limit.burst != null ? `burst ${limit.burst}` : null,
    limit.plan ? `plan ${limit.plan}` : null,
  ]
    .filter(Boolean)
    .join(", ");
  if (limit.blocked || limit.banned)
    return `${limit.name} of ${limit.key ?? limit.by} (${limit.algorithm} ${rate}): ${shutOutWords(limit)}`;
  const left = limit.remaining == null ? "" : `: ${limit.remaining} of ${limit.quota} left`;
  const refusal = limit.passes === false ? `, ${refusalWords(limit)}` : "";
  return `${limit.name} of ${limit.key ?? limit.by} (${limit.algorithm} ${rate})${left}${refusal}`;
}

/* What refuses whatever is left; null: nothing does. */
function shutOutWords(limit) {
  if (limit.blocked) {
    const { by, reason } = limit.block ?? {};
    return `blocked${by ? ` by ${by}` : ""} until ${limit.blocked_until}${reason ? `: ${reason}` : ""}`;
  }
  return limit.banned ? `banned by its penalty until ${limit.banned_until}` : null;
}

/* The sentence on top, where the limit's own numbers are not what has refused; null: they are. */
function shutOutVerdict({ limits, verdict }, who) {
  const limit = limits?.find(({ name, passes }) => passes === false && name === verdict?.limit);
  const words = limit && shutOutWords(limit);
  return words ? `${who} is ${words}. That is limit “${limit.name}” of policy “${verdict.policy}”.` : null;
}

function refusalWords(limit) {
  if (limit.impossible) return "which this request can never fit";
  const wait = limit.retry_us ?? limit.retry_most_us;
  return wait == null
    ? "too few"
    : `too few for ${limit.retry_us == null ? "at most " : ""}${formatSpan(wait / 1e6)}`;
}

function limitsStep({ limits, state, decided }) {
  if (!limits?.length) return null;
  const lines = limits.map(limitWords);
  if (state?.failure) lines.push(`the store did not say: ${state.failure}`);
  if (state?.by_memory) lines.push("counted in this process, in place of the store");
  return {
    title: decided ? "Limits, as they were" : "Limits, as they are now",
    lines,
    against: limits.some(({ passes }) => passes === false),
  };
}

function concurrencyStep({ concurrency }) {
  if (!concurrency) return null;
  const lines = [];
  if (concurrency.at_once != null)
    lines.push(`${concurrency.at_once} at once for ${concurrency.key ?? concurrency.by}`);
  if (concurrency.group_under_way != null)
    lines.push(
      `${concurrency.group_under_way} of ${concurrency.group_limit} under way in group ${concurrency.group}`,
    );
  else if (concurrency.group != null)
    lines.push(
      `as many in group ${concurrency.group} as it takes at once${concurrency.group_limit ? `, ${concurrency.group_limit}` : ""}`,
    );
  return lines.length > 0
    ? { title: "Requests at once", lines, against: concurrency.passes === false }
    : null;
}

function answerStep({ verdict, decided }) {
  if (!verdict) return null;
  const would = verdict.would && verdict.would !== verdict.outcome ? `, which would be ${verdict.would}` : "";
  const status = verdict.status ? `, status ${verdict.status}` : "";
  const headers = (verdict.headers ?? []).map((header) => header.join(": "));
  return {
    title: decided ? "Answer" : "Answer, if it were asked now",
    text: `${verdict.outcome}${would}${status}`,
    lines: headers,
    against: verdict.status >= 400,
  };
}

function hintsStep({ hints }) {
  return hints?.length ? { title: "What to look at", lines: hints } : null;
}
