/* One refusal: what became of the request, and why. */

const explainDialog = {
  row: null,

  start() {
    byId("explain-client").addEventListener("click", () => {
      byId("explain").close();
      clientDialog.open({
        policy: this.row.policy,
        limit: this.row.limit,
        subject: subjectOf(this.row.key) ?? subjectOfClient(this.row.client),
      });
    });
    byId("explain").addEventListener("close", () => refusals.showUnlessRead());
  },

  async open(row) {
    this.row = row;
    setText(byId("explain-verdict"), verdictOf(row));
    showFacts(byId("explain-facts"), factsOf(row));
    byId("explain-steps").replaceChildren();
    setText(
      byId("explain-note"),
      row.request_id
        ? "Asking the server for the way that this request took …"
        : "The request had no id to ask by; these are the numbers of its line in the log.",
    );
    byId("explain-client").hidden = !row.policy;
    openDialog("explain").scrollTop = 0;
    if (row.request_id) await this.load(row);
  },

  async load(row) {
    try {
      const answer = await server.get("/explain", { request_id: row.request_id });
      if (this.row !== row) return;
      this.showSteps(answer);
      setText(byId("explain-verdict"), shutOutVerdict(answer, row.client ?? "A client") ?? verdictOf(row));
      setText(byId("explain-note"), answer.summary ?? "");
    } catch (why) {
      if (this.row === row)
        setText(byId("explain-note"), `${why.message} Below are the numbers of its line in the log.`);
    }
  },

  showSteps(answer) {
    byId("explain-steps").replaceChildren(...stepsOf(answer).map((step) => stepNode(step)));
  },
};

function verdictOf(row) {
  const who = row.client ?? "A client";
  const waits = row.retry_s > 0 ? ` It was told to wait ${formatSpan(row.retry_s)}.` : "";
  const where = row.limit
    ? `limit “${row.limit}” of policy “${row.policy}”`
    : row.policy
      ? `policy “${row.policy}”`
      : "weir";
  const words = {
    limited: `${who} had spent what ${where} allows.${waits}`,
    impossible: `The request costs more than ${where} ever holds: no wait helps.`,
    "shadow-limited": `${who} was let through, but ${where} would have refused.`,
    unauthenticated: "The route wants to know who asks, and the request did not say, or not truly.",
    "failed-open": `The store failed, and the request was let through uncounted, as ${where} says.`,
    "failed-closed": `The store failed, and the request was refused, as ${where} says.${waits}`,
    unreadable: "Limits count by a field of the body, and it could not be read.",
    denied: `A list keeps ${who} out.`,
    busy: `Too many requests are under way.${waits}`,
  };
  return words[outcomeOf(row)] ?? `${who}: ${outcomeOf(row)}.${waits}`;
}

function factsOf(row) {
  return [
    ["Outcome", [outcomeOf(row), row.would ? `would be ${row.would}` : null].filter(Boolean).join(", ")],
    ["Status", row.status ?? row.would_status],
    ["When", momentWords(timeOf(row))],
    ["Request", requestOf(row)],
    ["Client", row.client],
    ["Address", row.address],
    ["Counted by", row.key],
    ["Policy", row.policy],
    ["Limit", row.limit],
    ["Cost", row.cost],
    [
      "Left",
      row.quota != null
        ? `${grouped(row.remaining ?? 0)} of ${grouped(row.quota)}${row.window_s ? ` in ${formatSpan(row.window_s)}` : ""}`
        : null,
    ],
    ["Full again in", row.reset_s != null ? formatSpan(row.reset_s) : null],
    ["Wait", row.retry_s > 0 ? formatSpan(row.retry_s) : null],
    [
      "Decided by",
      {
        store: "the store",
        lease: "a lease",
        denials: "an earlier refusal",
        memory: "memory, in place of the store",
      }[row.source] ?? row.source,
    ],
    ["Failure", [row.failure, row.why].filter(Boolean).join(": ")],
    ["Instance", row.instance],
    ["Policy generation", row.generation],
    ["Same since the last line", row.count > 1 ? grouped(row.count) : null],
    ["Request id", row.request_id],
    ["Trace", row.traceparent],
  ];
}

/* A step has a title and says what was found, in a sentence or in lines. */
function stepNode(step) {
  const node = make("li", {}, make("h3", {}, step.title ?? step.step ?? ""));
  setState(node, step.against ? "bad" : null);
  if (step.text) node.append(make("p", {}, step.text));
  if (step.lines?.length)
    node.append(make("ul", {}, ...step.lines.map((line) => make("li", {}, String(line)))));
  return node;
}
