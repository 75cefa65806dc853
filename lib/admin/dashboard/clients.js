/* Who spends and who is refused, and what they have left. */

const QUOTAS_OF = 5;

function showQuotas(box, limits) {
  keepList(
    box,
    limits,
    (limit) => `${limit.name} ${limit.key ?? ""}`,
    () =>
      make(
        "div",
        { class: "quota" },
        make("span", { class: "clip" }),
        make("span", { class: "track", "aria-hidden": "true" }, make("i")),
        make("span", { class: "left" }),
      ),
    (node, limit) => {
      const share = limit.limit > 0 ? Math.min(1, limit.remaining / limit.limit) : 0;
      setState(node, limit.blocked || limit.banned || limit.remaining === 0 ? "none" : share < 0.2 ? "low" : null);
      setText(node.children[0], limit.name);
      setTitle(node.children[0], limit.key ?? limit.name);
      node.children[1].firstChild.style.width = `${(100 * share).toFixed(1)}%`;
      const reset = limit.reset_s > 0 ? `, full in ${formatSpan(limit.reset_s)}` : "";
      setText(
        node.children[2],
        limit.blocked
          ? "blocked"
          : limit.banned
            ? `banned${reset}`
            : `${formatCount(limit.remaining)} of ${formatCount(limit.limit)} left${reset}`,
      );
    },
  );
}

const clientsView = {
  policy: null,
  lists: { spent: [], refused: [] },

  start() {
    byId("clients-policy").addEventListener("change", () => {
      this.policy = byId("clients-policy").value;
      refreshSoon("top");
    });
  },

  /* The policies to choose from; the first that is asked is chosen, until an operator chooses. */
  showPolicies(stats) {
    const names = (stats.policies ?? []).map(({ name }) => name).filter((name) => name !== "");
    showOptions(
      byId("clients-policy"),
      names.map((name) => [name, name]),
    );
    const busiest = (stats.policies ?? [])
      .filter(({ name }) => name !== "")
      .reduce((best, policy) => (!best || sumOf(policy) > sumOf(best) ? policy : best), null);
    if (!names.includes(this.policy) && busiest && (sumOf(busiest) > 0 || names.length === 1)) {
      this.policy = busiest.name;
      byId("clients-policy").value = busiest.name;
    }
  },

  async load() {
    if (!this.policy) return;
    for (const by of ["spent", "refused"])
      this.showList(by, await server.get("/top", { policy: this.policy, by, count: 8 }));
  },

  showList(by, top) {
    const keys = top.keys ?? [];
    this.lists[by] = keys;
    const most = Math.max(1, ...keys.map(({ count }) => count));
    keepList(
      byId(`top-${by}`),
      keys,
      ({ key }) => `${this.policy} ${key}`,
      (client) => this.makeRow(client),
      (node, { key, count, at_least: least }) => {
        setText(part(node, "key"), key);
        setTitle(part(node, "key"), key);
        setText(part(node, "count"), formatCount(count));
        part(node, "count").title =
          least != null && least < count
            ? `between ${grouped(least)} and ${grouped(count)}`
            : `${grouped(count)} exactly`;
        part(node, "share").style.width = `${((100 * count) / most).toFixed(1)}%`;
      },
    );
    byId(`top-${by}-empty`).hidden = keys.length > 0;
    setText(byId(`top-${by}-note`), keys.length > 0 ? this.note(by, top) : "");
  },

  note(by, { total, error_bound: bound }) {
    const what = by === "spent" ? "units spent" : "refusals";
    const exact =
      bound > 0
        ? `a count may be up to ${formatCount(bound)} too high, never too low`
        : "each count is exact";
    return `Of ${formatCount(total ?? 0)} ${what} in the last minutes; ${exact}.`;
  },

  makeRow({ key }) {
    const row = fromTemplate("client-row");
    const policy = this.policy;
    part(row, "look").setAttribute("aria-label", plainly(`Look at ${key}`));
    part(row, "look").addEventListener("click", () => clientDialog.open({ policy, subject: subjectOf(key) }));
    return row;
  },

  /* What the first few have left. A store that does not answer is not asked, and what it said before is
   * not shown as if it were so now. */
  async loadQuotas() {
    if (newestSample()?.stats.store?.answering === false) return void this.forgetQuotas();
    const policy = this.policy;
    for (const { key } of this.lists.spent.slice(0, QUOTAS_OF)) {
      const subject = subjectOf(key);
      const row = [...byId("top-spent").children].find((node) => node.itemKey === `${policy} ${key}`);
      if (!isWhole(subject) || !row) continue;
      const { limits } = await server.get("/key", { policy, ...subject });
      showQuotas(part(row, "quotas"), limits ?? []);
    }
  },

  forgetQuotas() {
    for (const row of byId("top-spent").children) part(row, "quotas").replaceChildren();
  },
};

function sumOf(policy) {
  return groupCounts(policy.decisions).reduce((sum, one) => sum + one, 0);
}
