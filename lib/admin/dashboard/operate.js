/* Blocks, and the policy that is in force. */

const blocksView = {
  async load() {
    const { blocks } = await server.get("/blocks");
    keepList(
      byId("blocks-rows"),
      blocks ?? [],
      ({ id }) => id,
      (block) => this.makeRow(block),
      (row, block) => this.showRow(row, block),
    );
    this.at = new Date();
    byId("blocks-empty").hidden = (blocks ?? []).length > 0;
    setText(byId("blocks-empty"), "Nobody is blocked.");
  },

  fail(why) {
    const isOld = byId("blocks-rows").children.length > 0;
    byId("blocks-empty").hidden = false;
    setText(byId("blocks-empty"), isOld ? `This is as of ${clockOf({ time: this.at })}. ${why}` : why);
  },

  makeRow(block) {
    const row = make("tr");
    const button = make(
      "button",
      { type: "button", class: "button small", "aria-label": `Unblock ${block.key}` },
      "Unblock",
    );
    button.addEventListener("click", () => this.unblock(row.block));
    row.append(
      make("td", { class: "client" }, block.key ?? ""),
      make("td", {}, [block.policy, block.limit ?? "all limits"].join(" › ")),
      make("td"),
      make("td", { class: "wide" }, block.reason ?? ""),
      make("td", {}, block.by ?? ""),
      make("td", { class: "number press" }, button),
    );
    return row;
  },

  showRow(row, block) {
    row.block = block;
    const until = new Date(typeof block.until === "number" ? block.until * 1000 : block.until);
    const left = block.left_s ?? (until - Date.now()) / 1000;
    setText(row.children[2], left > 0 ? `in ${formatSpan(left)}` : "now");
    setTitle(row.children[2], momentWords(until));
  },

  async unblock(block) {
    if (
      !(await confirmed(
        `Unblock ${block.key}?`,
        `Policy “${block.policy}” lets it spend again, on every instance.`,
        "Unblock",
      ))
    )
      return;
    try {
      await server.post("/unblock", { id: block.id });
      say(`${block.key} is not blocked any more.`);
    } catch (why) {
      say(`${block.key} is still blocked: ${why.message}`);
    }
    refreshSoon("blocks");
  },
};

const policyView = {
  start() {
    byId("policy-reload").addEventListener("click", () => this.reload());
    byId("policy-show").addEventListener("click", () => this.showText());
  },

  async load() {
    this.show(await server.get("/health"));
  },

  show(health) {
    if (health.uptime_s < this.uptimeS) refusals.startAnew();
    this.uptimeS = health.uptime_s;
    const { policy = {}, store = {} } = health;
    const reload = policy.reload ?? {};
    setText(byId("instance"), health.instance ?? "");
    setText(byId("policy-file"), policy.file ?? "");
    byId("policy-why").hidden = reload.ok !== false;
    setText(
      byId("policy-why"),
      reload.ok === false
        ? `The file was refused, and the policy before it is still in force: ${reload.why}`
        : "",
    );
    showFacts(byId("policy-facts"), [
      ["Generation", policy.generation],
      ["In force since", momentWords(policy.loaded)],
      ["Last read", reload.time ? `${momentWords(reload.time)}, ${reload.ok ? "taken" : "refused"}` : null],
      ["Store", store.name],
    ]);
    setText(byId("about"), `weir ${health.version ?? ""}, up for ${formatSpan(health.uptime_s ?? 0)}`);
  },

  async reload() {
    if (
      !(await confirmed(
        "Read the policy file again?",
        "If it is sound it is in force at once, for requests that come from then on. If not, nothing changes.",
        "Read it",
      ))
    )
      return;
    try {
      await server.post("/reload");
      say("The policy file is in force.");
    } catch (why) {
      say(`The file was refused, and nothing has changed: ${why.message}`);
    }
    refreshSoon("health");
  },

  async showText() {
    setText(byId("text-title"), "The policy in force");
    try {
      setLines(byId("text-body"), JSON.stringify(await server.get("/policy"), null, 2));
    } catch (why) {
      setText(byId("text-body"), why.message);
    }
    openDialog("text");
  },
};

function momentWords(moment) {
  if (!moment) return null;
  const date = new Date(typeof moment === "number" ? moment * 1000 : moment);
  return Number.isNaN(date.getTime())
    ? String(moment)
    : date.toLocaleString([], { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
}
