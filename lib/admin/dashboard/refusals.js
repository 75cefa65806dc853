/* The latest refusals and failures, and why each was one. */

const KEPT = 256;
const SHOWN = 60;

const refusals = {
  next: null,
  rows: [],
  held: 0,
  reading: false,

  start() {
    const scroll = byId("refusals-scroll");
    byId("refusals-filter").addEventListener("input", () => this.show());
    byId("refusals-held").addEventListener("click", () => {
      scroll.scrollTop = 0;
      byId("refusals-held").hidden = true;
      this.show();
      scroll.focus({ preventScroll: true });
    });
    scroll.addEventListener("pointerenter", (event) => {
      this.reading = event.pointerType === "mouse";
    });
    scroll.addEventListener("pointerleave", () => this.readOn());
    scroll.addEventListener("scroll", () => scroll.scrollTop === 0 && this.showUnlessRead());
    scroll.addEventListener("focusout", () => setTimeout(() => this.showUnlessRead()));
  },

  readOn() {
    this.reading = false;
    this.showUnlessRead();
  },

  /* Rows do not move under the pointer, the focus, or whoever has scrolled down to them. */
  isRead() {
    const scroll = byId("refusals-scroll");
    const within = document.activeElement !== scroll && scroll.contains(document.activeElement);
    return this.reading || within || scroll.scrollTop > 0 || byId("explain").open;
  },

  async load() {
    const { next, decisions } = await server.get("/recent", {
      count: KEPT,
      ...(this.next === null ? {} : { after: this.next }),
    });
    this.next = next;
    if (!decisions?.length) return void (this.shown || this.show());
    const fresh = [...decisions].sort((a, b) => b.seq - a.seq);
    this.rows = [...fresh, ...this.rows].slice(0, KEPT);
    if (this.isRead() && this.shown) this.hold(fresh.length);
    else this.show();
  },

  /* Its numbers begin at 1 again. */
  startAnew() {
    this.next = null;
    this.rows = [];
  },

  hold(count) {
    this.held += count;
    byId("refusals-held").hidden = false;
    setText(byId("refusals-held"), `Show ${this.held > KEPT ? `${KEPT}+` : this.held} new`);
  },

  showUnlessRead() {
    if (this.held > 0 && !this.isRead()) this.show();
  },

  show() {
    this.held = 0;
    this.shown = true;
    byId("refusals-held").hidden = true;
    const words = byId("refusals-filter").value.trim().toLowerCase();
    const matching = this.rows.filter((row) => words === "" || textOf(row).includes(words)).slice(0, SHOWN);
    keepList(
      byId("refusals-rows"),
      matching,
      ({ seq }) => seq,
      (row) => makeRefusal(row),
    );
    byId("refusals-empty").hidden = matching.length > 0;
    setText(
      byId("refusals-empty"),
      words === "" ? "No request has been refused yet." : "Nothing here has these words.",
    );
  },
};

function outcomeOf(row) {
  return row.decision ?? row.outcome ?? "";
}

function requestOf(row) {
  return [row.method, row.path].filter(Boolean).join(" ");
}

function timeOf(row) {
  return row.time_us ? new Date(row.time_us / 1000) : row.time ? new Date(row.time) : null;
}

function clockOf(row) {
  return timeOf(row)?.toLocaleTimeString([], { hourCycle: "h23" }) ?? "";
}

function textOf(row) {
  return [
    outcomeOf(row),
    row.policy,
    row.limit,
    row.client,
    row.key,
    requestOf(row),
    row.request_id,
    row.source,
    row.instance,
  ]
    .join(" ")
    .toLowerCase();
}

function makeRefusal(row) {
  const outcome = make("span", { class: "outcome", "data-group": groupOf(outcomeOf(row)) }, outcomeOf(row));
  const button = make(
    "button",
    {
      type: "button",
      class: "button small",
      "aria-label": `Explain: ${outcomeOf(row)}, ${row.client ?? ""} ${requestOf(row)}`,
    },
    "Why?",
  );
  button.addEventListener("click", () => explainDialog.open(row));
  const policy = [row.policy, row.limit].filter(Boolean).join(" › ");
  return make(
    "tr",
    {},
    make("td", { class: "time", title: timeOf(row)?.toISOString() }, clockOf(row)),
    make("td", {}, outcome),
    make("td", {}, policy),
    make("td", { class: "client clip", title: row.key ?? row.client }, row.client ?? ""),
    make("td", { class: "request clip wide", title: requestOf(row) }, requestOf(row)),
    make("td", { class: "number", "data-label": "wait" }, row.retry_s > 0 ? formatSpan(row.retry_s) : ""),
    make("td", { class: "number", "data-label": "times" }, row.count > 1 ? formatCount(row.count) : ""),
    make("td", { class: "number press" }, button),
  );
}
