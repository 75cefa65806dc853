/* One client: what it has left, and what an operator may do about it. */

const NAMED = ["field:", "header:", "query:", "param:"];

const clientDialog = {
  start() {
    byId("client-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.look();
    });
    byId("client-more").addEventListener("click", () => this.addSubject("ip", "", false));
    byId("client-policy").addEventListener("change", () => this.showLimits());
    byId("client-reset").addEventListener("click", () => this.act("/reset", {}, "Its limits start anew."));
    byId("client-block").addEventListener("click", () => this.block());
    byId("find").addEventListener("click", () => this.open({ policy: clientsView.policy }));
  },

  policies() {
    return (newestSample()?.stats.policies ?? []).filter(({ name }) => name !== "");
  },

  open({ policy, limit, subject }) {
    showOptions(
      byId("client-policy"),
      this.policies().map(({ name }) => [name, name]),
    );
    if (policy) byId("client-policy").value = policy;
    this.showLimits();
    byId("client-limit").value = "";
    byId("client-subjects").replaceChildren();
    for (const [kind, value] of Object.entries(subject ?? { ip: "" })) this.addSubject(kind, value);
    byId("client-quotas").replaceChildren();
    this.fail(null);
    openDialog("client").scrollTop = 0;
    const missing = [...byId("client-subjects").querySelectorAll("[data-value]")].find(
      ({ value }) => value === "",
    );
    if (missing) missing.focus();
    else this.look();
  },

  showLimits() {
    const policy = this.policies().find(({ name }) => name === byId("client-policy").value);
    showOptions(byId("client-limit"), [
      ["", "all of its own"],
      ...(policy?.limits ?? []).map(({ name, by }) => [name, `${name} (by ${byWords(by)})`]),
    ]);
  },

  /* What an operator adds may stay empty. */
  addSubject(kind, value, required = true) {
    const row = fromTemplate("subject-row");
    const select = part(row, "kind");
    const named = NAMED.find((one) => kind.startsWith(one));
    select.value = named ?? kind;
    part(row, "name").value = named ? kind.slice(named.length) : "";
    part(row, "value").value = value;
    part(row, "value").required = required;
    const showName = () => {
      part(row, "name-label").hidden = !NAMED.includes(select.value);
    };
    select.addEventListener("change", showName);
    showName();
    byId("client-subjects").append(row);
  },

  /* {policy, limit?, ip: …, "field:username": …}; null where something is missing. */
  subject() {
    if (!byId("client-form").reportValidity()) return null;
    const subject = { policy: byId("client-policy").value };
    if (byId("client-limit").value !== "") subject.limit = byId("client-limit").value;
    for (const row of byId("client-subjects").children) {
      const [kind, name, value] = ["kind", "name", "value"].map((field) => part(row, field).value.trim());
      if (value !== "") subject[NAMED.includes(kind) ? kind + name : kind] = value;
    }
    return subject;
  },

  fail(text) {
    byId("client-why").hidden = !text;
    setText(byId("client-why"), text ?? "");
  },

  async look() {
    const subject = this.subject();
    if (!subject) return;
    try {
      const { limits, hint } = await server.get("/key", subject);
      this.fail(limits?.length ? hint : "No limit of this policy counts by that.");
      showQuotas(byId("client-quotas"), limits ?? []);
    } catch (why) {
      byId("client-quotas").replaceChildren();
      this.fail(why.message);
    }
  },

  block() {
    const minutes = byId("client-minutes");
    if (!minutes.reportValidity()) return;
    const reason = byId("client-reason").value.trim();
    this.act(
      "/block",
      { seconds: Math.round(minutes.valueAsNumber * 60), ...(reason === "" ? {} : { reason }) },
      `It is kept out for ${formatSpan(minutes.valueAsNumber * 60)}.`,
    );
  },

  async act(path, more, done) {
    const subject = this.subject();
    if (!subject) return;
    const buttons = [byId("client-reset"), byId("client-block")];
    for (const button of buttons) button.disabled = true;
    try {
      await server.post(path, { ...subject, ...more });
      say(done);
      await this.look();
      refreshSoon("blocks");
    } catch (why) {
      this.fail(why.message);
    }
    for (const button of buttons) button.disabled = false;
  },
};
