/* The loop that asks the server, and what the page does where it has no answer. */

const loop = {
  paused: false,
  failures: 0,
  signedOut: false,
  answered: Date.now(),
  nextAt: 0,
  timer: null,
  busy: false,
};

/* What is asked, how often, and what is shown of it. The first has to succeed; where another fails
 * (a store that is down, an endpoint that is not there), its part of the page waits. */
const questions = [
  { name: "stats", everyS: 0, ask: async () => showStats(await server.get("/stats")) },
  { name: "recent", everyS: 0, ask: () => refusals.load() },
  { name: "health", everyS: 5, ask: () => policyView.load() },
  { name: "top", everyS: 2, ask: () => clientsView.load() },
  { name: "quotas", everyS: 3, ask: () => clientsView.loadQuotas(), fail: () => clientsView.forgetQuotas() },
  { name: "blocks", everyS: 5, ask: () => blocksView.load(), fail: (why) => blocksView.fail(why.message) },
];

function showStats(stats) {
  takeSample(stats);
  showTiles(stats);
  showPolicies(stats);
  storeView.show(stats);
  clientsView.showPolicies(stats);
  showStatus(stats.store ?? {});
}

function showStatus(store) {
  const [state, text] = loop.paused
    ? ["warn", "paused"]
    : isDown(store)
      ? ["bad", "store down"]
      : (store.breaker ?? "closed") === "closed"
        ? ["good", "live"]
        : ["warn", `store ${store.breaker}`];
  showPill(state, text);
}

function showPill(state, text) {
  setState(byId("status"), state);
  setText(byId("status").lastElementChild, text);
}

/* rounds */

async function askAll() {
  for (const question of questions) {
    if (loop.paused || Date.now() < (question.dueAt ?? 0)) continue;
    try {
      await question.ask();
      question.dueAt = Date.now() + question.everyS * 1000 - 200;
    } catch (why) {
      if (!(why instanceof Failure)) throw why;
      if (question === questions[0] || why.status === 0 || why.status === 401) throw why;
      question.fail?.(why);
      question.dueAt = Date.now() + Math.max(question.everyS, 5) * 1000;
    }
  }
}

async function round() {
  if (loop.busy || loop.paused || loop.signedOut) return;
  loop.busy = true;
  let pauseS;
  try {
    await askAll();
    loop.failures = 0;
    loop.answered = Date.now();
    pauseS = pauseAfter(0, document.hidden);
  } catch (why) {
    pauseS = await failed(why);
  }
  loop.busy = false;
  showTrouble();
  schedule(pauseS);
}

function schedule(seconds) {
  clearTimeout(loop.timer);
  loop.nextAt = Date.now() + seconds * 1000;
  if (!loop.paused && !loop.signedOut) loop.timer = setTimeout(round, seconds * 1000);
}

/* Asks again at once, for what an operator has changed, on a page that is paused as well. */
function refreshSoon(...names) {
  const wanted = questions.filter(({ name }) => names.includes(name));
  for (const question of wanted) question.dueAt = 0;
  if (loop.paused) for (const question of wanted) question.ask().catch((why) => say(why.message));
  else if (!loop.busy) schedule(0.05);
}

async function failed(why) {
  if (!(why instanceof Failure)) {
    console.error(why);
    loop.why = `The page is at fault: ${why.message}`;
    loop.failures++;
    return pauseAfter(loop.failures, false);
  }
  if (why.status === 401)
    return (await signIn(server.token ? "The server does not take this token." : null)) ? 0 : 60;
  loop.failures++;
  loop.why = why.status === 0 ? "The server does not answer." : why.message;
  return Math.max(why.retryS ?? 0, pauseAfter(loop.failures, document.hidden));
}

async function signIn(why) {
  showPill("warn", "signed out");
  loop.signedOut = !(await askForToken(why));
  showSignOut();
  return !loop.signedOut;
}

function showSignOut() {
  byId("sign-out").hidden = !loop.signedOut && server.token === null;
  setText(byId("sign-out"), loop.signedOut ? "Sign in" : "Sign out");
}

/* Screen readers hear what is wrong once; the seconds are for the eye. */
function showTrouble() {
  const box = byId("trouble");
  const isOld = loop.signedOut && newestSample() != null;
  const isBad = loop.failures > 0 && !loop.paused && !loop.signedOut;
  if ((isBad || isOld) !== !box.hidden) box.hidden = !(isBad || isOld);
  if (isOld) {
    setText(byId("trouble-what"), "You are signed out.");
    setText(byId("trouble-since"), `This page is as of ${clockOf({ time: loop.answered })}.`);
  }
  if (!isBad) return;
  setText(byId("trouble-what"), loop.why);
  const sinceS = Math.round((Date.now() - loop.answered) / 1000);
  const nextS = Math.max(0, Math.ceil((loop.nextAt - Date.now()) / 1000));
  const next = loop.busy || nextS === 0 ? "asking now" : `asking again in ${nextS} s`;
  setText(byId("trouble-since"), `No news for ${formatSpan(sinceS)}; ${next}.`);
  showPill("bad", "no answer");
}

/* buttons */

function pause() {
  loop.paused = !loop.paused;
  byId("pause").setAttribute("aria-pressed", String(loop.paused));
  setText(byId("pause"), loop.paused ? "Go on" : "Pause");
  showStatus(newestSample()?.stats.store ?? {});
  if (loop.paused) clearTimeout(loop.timer);
  else schedule(0);
}

function signInOrOut() {
  if (loop.signedOut) loop.signedOut = false;
  else server.keepToken(null);
  showSignOut();
  schedule(0);
}

function startPage() {
  startTheme();
  storeView.start();
  clientsView.start();
  refusals.start();
  explainDialog.start();
  clientDialog.start();
  policyView.start();
  byId("pause").addEventListener("click", pause);
  byId("sign-out").addEventListener("click", signInOrOut);
  for (const button of document.querySelectorAll("[data-close]"))
    button.addEventListener("click", () => button.closest("dialog").close());
  document.addEventListener("visibilitychange", () => document.hidden || loop.busy || schedule(0));
  setInterval(showTrouble, 1000);
  showSignOut();
  round();
}

startPage();
