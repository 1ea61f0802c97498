// The console page: asks its server once a second, and the primary's where the address names it, and shows what they say.

import { draw } from "./chart.js";
import { cores, isNumber, number, text, time } from "./format.js";
import { Server } from "./server.js";
import { fill } from "./tables.js";
import { showTables } from "./views.js";

const EVERY_MS = 1000;
const SPAN_MS = 120000;
const LOCAL = /^(127\.0\.0\.1|localhost):[0-9]{1,5}$/;

const byId = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search).get("primary");
const own = new Server(location.host, location.href);
const other = asked !== null && LOCAL.test(asked) && asked !== location.host ? new Server(asked, `http://${asked}`) : null;
const servers = other === null ? [own] : [own, other];
const points = [];
/** The newest figures; those of a server that is away are its last ones. */
const known = {};
let paused = false;

/** Sets a word, and the figure behind it for programs that read the page. */
function show(id, words, value) {
  const place = byId(id);
  if (place.textContent !== words) place.textContent = words;
  if (place instanceof HTMLDataElement) place.value = value === null || value === undefined ? "" : String(value);
}

/** Who leads and who follows, among those that were heard; null where nobody does. */
function roles() {
  const leader = servers.find((server) => server.role === "primary") ?? null;
  const follower = servers.find((server) => server.role === "replica") ?? null;
  return { leader, follower };
}

/** What is known now. What is not is null. */
function now({ leader, follower }) {
  const policy = follower?.row("policy") ?? null;
  const commits = leader?.row("commits") ?? null;
  const live = (server, value) => (server?.isThere && isNumber(value) ? value : null);
  const delays = (leader?.rows("replication") ?? []).map((row) => row.delay_us).filter(isNumber);
  return {
    at_ms: Date.now(),
    throughput: live(leader ?? follower, leader ? leader.commitsPerSecond : policy?.commits_per_s),
    p50_us: live(leader, commits?.p50_us),
    p99_us: live(leader, commits?.p99_us),
    delay_us: follower ? live(follower, policy?.delay_us) : live(leader, delays.length ? Math.max(...delays) : null),
    bound_us: live(follower, policy?.bound_us),
    grant_us: live(follower, policy?.grant_us_per_s),
  };
}

function keep(point) {
  const away = servers.some((server) => !server.isThere);
  for (const [key, value] of Object.entries(point)) {
    if (value !== null || !away) known[key] = value;
  }
  return known;
}

function showNow(point, { leader, follower }) {
  show("throughput", number(point.throughput), point.throughput);
  show("throughput-note", leader ? "on the primary, over 5 s" : follower ? "applied by the replica" : "");
  show("latency-p50", time(point.p50_us), point.p50_us);
  show("latency-p99", time(point.p99_us), point.p99_us);
  show("latency-note", leader ? "of commits that wait, last 10 to 20 s" : "the primary knows: ?primary=127.0.0.1:PORT");
  show("delay", time(point.delay_us), point.delay_us);
  show("bound", time(point.bound_us), point.bound_us);
  const policy = (follower ?? leader ?? own).row("policy");
  const judged = follower && policy ? `${number(policy.out_windows)} of ${number(policy.windows)} seconds out of bound` : "";
  show("delay-note", follower ? judged : "the bound is a replica's: open its page");
  show("grant", cores(point.grant_us), point.grant_us);
  show("grant-note", follower ? "work that collection may take" : "a primary grants none");
  show("policy-name", text(policy?.policy));
  show("policy-state", text(policy?.state));
  const spent = policy?.elastic_spent_us;
  show("policy-note", follower && isNumber(spent) ? `${time(spent)} taken by work that can wait` : "");
  document.title = isNumber(point.throughput) ? `${number(point.throughput)} commits/s - Collie` : "Collie";
}

function showServers() {
  const badge = (id, server) => {
    const place = byId(id);
    place.hidden = server === null;
    if (server === null) return;
    place.textContent = server.said?.closed ? "no database" : text(server.role);
    place.className = server.isThere && !server.said.closed ? "badge" : "badge bad";
  };
  const words = (server) => {
    if (server === null) return "";
    const node = server.row("node");
    return node ? `${server.address}, node ${text(node.node)}, term ${text(node.term)}` : server.address;
  };
  badge("role", own);
  badge("primary-role", other);
  show("own", words(own));
  show("primary", words(other));
  show("version", text(own.said?.version));
}

/** What somebody should know, a paragraph each. */
function notices() {
  const all = [];
  if (asked !== null && !LOCAL.test(asked)) {
    all.push(["bad", "?primary= takes 127.0.0.1:PORT or localhost:PORT: servers listen on loopback only."]);
  }
  for (const server of servers) {
    if (server.awaySince !== null) {
      const since = new Date(server.awaySince).toTimeString().slice(0, 8);
      const last = server.said === null ? "" : " Its last figures are shown.";
      all.push(["bad", `${server.address} has not answered since ${since} (${server.why}).${last}`]);
    }
    if (server.said?.closed) all.push(["bad", `${server.address}: ${server.said.closed}`]);
    for (const { severity, subject, reason } of server.rows("health")) {
      all.push([severity === "failure" ? "bad" : "", `${server.address}: ${severity}: ${subject}: ${reason}`]);
    }
  }
  return all;
}

function showNotices() {
  const all = notices();
  const place = byId("notices");
  const state = JSON.stringify(all);
  if (place.dataset.state === state) return; // read aloud when something changes only
  place.dataset.state = state;
  place.replaceChildren(...all.map(([tone, words]) => {
    const made = document.createElement("p");
    made.className = `notice ${tone}`;
    made.textContent = words;
    return made;
  }));
}

const PANELS = [
  {
    name: "Delay", unit: "ms", missing: "no delay is known yet",
    series: [
      { key: "delay_ms", name: "delay", style: "first" },
      { key: "bound_ms", name: "bound", style: "second", dashed: true },
    ],
  },
  {
    name: "Grant C", unit: "cores", missing: "nothing is granted on a primary",
    series: [{ key: "grant_cores", name: "grant", style: "third", area: true }],
  },
  {
    name: "Throughput", unit: "commits/s", missing: "no commits are known yet",
    series: [{ key: "throughput", name: "throughput", style: "first" }],
  },
  {
    name: "Latency", unit: "ms", missing: "the primary knows it",
    series: [
      { key: "p50_ms", name: "p50", style: "first" },
      { key: "p99_ms", name: "p99", style: "second", dashed: true },
    ],
  },
];

const inMs = (us) => (us === null ? null : us / 1000);

function showLine() {
  const last = points.at(-1);
  if (!last) return;
  const lines = points.map((point) => ({
    ...point,
    delay_ms: inMs(point.delay_us),
    bound_ms: inMs(point.bound_us),
    p50_ms: inMs(point.p50_us),
    p99_ms: inMs(point.p99_us),
    grant_cores: point.grant_us === null ? null : point.grant_us / 1e6,
  }));
  draw(byId("timeline"), lines, PANELS, last.at_ms, SPAN_MS);
  const seconds = Math.round((last.at_ms - points[0].at_ms) / 1000);
  const over = points.filter((point) => point.delay_us !== null && point.bound_us !== null && point.delay_us > point.bound_us).length;
  show("timeline-words", `The line is ${seconds} s long. Delay ${time(last.delay_us)}, bound `
    + `${time(last.bound_us)}, grant ${cores(last.grant_us)}, ${number(last.throughput)} commits/s. Above the bound at ${over} of `
    + `${points.length} looks.`);
  const clock = (point) => new Date(point.at_ms).toTimeString().slice(0, 8);
  const column = (title, of) => ({ title, of, kind: "number" });
  fill("seconds", [
    { title: "at", of: clock },
    column("commits/s", (point) => number(point.throughput)),
    column("p50", (point) => time(point.p50_us)),
    column("p99", (point) => time(point.p99_us)),
    column("delay", (point) => time(point.delay_us)),
    column("bound", (point) => time(point.bound_us)),
    column("grant", (point) => cores(point.grant_us)),
  ], points.slice(-10).reverse(), "Nothing was heard yet.");
}

async function look() {
  await Promise.all(servers.map((server) => server.poll()));
  if (paused) return; // it was pressed while the answer was on its way
  const who = roles();
  const point = now(who);
  points.push(point);
  while (points[0].at_ms < point.at_ms - SPAN_MS) points.shift();
  showServers();
  showNotices();
  showNow(keep(point), who);
  showLine();
  showTables(own, who.leader, who.follower);
  byId("main").classList.toggle("stale", servers.some((server) => !server.isThere));
  document.body.dataset.looks = String(Number(document.body.dataset.looks ?? 0) + 1);
}

async function goOn() {
  for (;;) {
    const begun = Date.now();
    try {
      if (!paused) await look();
    } catch (error) {
      reportError(error); // the next look may do better
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(50, EVERY_MS - (Date.now() - begun))));
  }
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
});
addEventListener("resize", showLine);
goOn();
