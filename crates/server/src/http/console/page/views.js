// What the tables show: which columns of which views, and what is said where there is nothing.

import { amount, bytes, cores, day, isNumber, moment, number, percent, text, time } from "./format.js";
import { bar, fill } from "./tables.js";

const plain = (title, name) => ({ title, of: (row) => text(row[name]) });
const count = (title, name) => ({ title, of: (row) => number(row[name]), kind: "number" });
const duration = (title, name) => ({ title, of: (row) => time(row[name]), kind: "number" });
const size = (title, name) => ({ title, of: (row) => bytes(row[name]), kind: "number" });
const at = (title, name) => ({ title, of: (row) => moment(row[name]), kind: "number" });
const long = (title, name) => ({ title, of: (row) => text(row[name]), kind: "long" });

/** Returns why a view shows nothing: the server's own words, else what is known of it. */
function missing(server, view, why) {
  if (server.said === null) return `${server.address} has not answered yet.`;
  if (server.said.closed) return `There is no database now: ${server.said.closed}.`;
  const error = server.error(view);
  return error === null ? why : `Not shown: ${error}.`;
}

function units(server) {
  const rows = server.rows("units");
  const most = Math.max(0, ...rows.map((row) => row.cost_us_per_s).filter(isNumber));
  const columns = [
    plain("unit", "unit"),
    count("samples", "samples"),
    count("apply", "apply"),
    count("local", "local"),
    count("replayed", "replayed_read"),
    count("calibration", "calibration"),
    { title: "p", of: (row) => (isNumber(row.p) ? row.p.toPrecision(2) : text(row.p)), kind: "number" },
    count("dropped", "dropped"),
    { title: "cost", of: (row) => bar(row.cost_us_per_s, most, `${time(row.cost_us_per_s)}/s`), kind: "number" },
    { title: "model error", of: (row) => percent(row.error), kind: "number" },
    { title: "state", of: (row) => [row.is_shed && "shed", row.is_stale && "model is stale"].filter(Boolean).join(", ") },
  ];
  const why = server.role === "primary"
    ? "No samples yet: a primary takes few, to calibrate by. Open the page of a replica."
    : `No samples yet: ${server.row("policy")?.samples_reason ?? "they come once the policy grants work to collection"}.`;
  fill("units", columns, rows, missing(server, "units", why));
}

function models(server) {
  fill(
    "models",
    [
      { title: "unit", of: (row) => text(row.unit ?? row.file) },
      plain("label", "label"),
      plain("kind", "kind"),
      count("rows", "rows"),
      { title: "error", of: (row) => percent(row.error), kind: "number" },
      { title: "error seen", of: (row) => percent(row.error_seen), kind: "number" },
      plain("state", "state"),
      at("trained to", "trained_to"),
      { title: "refused", of: (row) => text(row.refused), kind: "long", tone: (row) => (row.refused ? "bad" : "") },
    ],
    server.rows("models"),
    missing(server, "models", "No models yet: they are fitted once there are samples (collie train fit)."),
  );
}

/** Returns the rows of a view of several servers, each with the role of its server. */
const ofAll = (servers, view) => servers.flatMap((server) => server.rows(view).map((row) => ({ ...row, on: server.role })));

/** From which value to which one. */
function change({ setting, old_value, new_value }) {
  const old = amount(setting, old_value);
  return isNumber(new_value) ? `${old} to ${amount(setting, new_value)}` : old;
}

/** Decisions of both servers: each has a journal of its own. */
function decisions(servers) {
  const rows = ofAll(servers, "decisions");
  rows.sort((a, b) => String(b.at).localeCompare(String(a.at)));
  fill(
    "decisions",
    [
      at("when", "at"),
      plain("on", "on"),
      plain("setting", "setting"),
      { title: "change", of: change },
      { title: "predicted gain", of: (row) => percent(row.gain), kind: "number" },
      { title: "seen", of: (row) => percent(row.observed_gain), kind: "number" },
      plain("verdict", "verdict"),
      long("why", "reason"),
    ],
    rows,
    missing(servers[0], "decisions", "No decisions yet: of the changes below none was proposed."),
  );
}

/** What both servers weighed last: why nothing is decided, if nothing is. What models promise most of comes first. */
function candidates(servers) {
  const gain = (row) => (isNumber(row.gain) ? `${percent(row.gain)} (${percent(row.gain_low)} to ${percent(row.gain_high)})` : text(null));
  const low = (row) => (isNumber(row.gain_low) ? row.gain_low : -Infinity);
  const rows = ofAll(servers, "candidates").sort((a, b) => (low(a) === low(b) ? 0 : low(b) - low(a)));
  fill(
    "candidates",
    [
      plain("setting", "setting"),
      plain("on", "on"),
      { title: "change", of: change },
      { title: "predicted gain", of: gain },
      long("what became of it", "reason"),
      at("when", "at"),
    ],
    rows,
    missing(servers[0], "candidates", "Nothing was weighed yet: every ten seconds changes are, unless training.apply is off."),
  );
}

function log(server) {
  fill(
    "policy-log",
    [
      at("when", "at"),
      plain("about", "subject"),
      long("change", "change"),
      long("why", "reason"),
      { title: "grant after", of: (row) => cores(row.grant_us_per_s), kind: "number" },
    ],
    server.rows("policy_log"),
    missing(server, "policy_log", "Nothing changed yet what may be collected."),
  );
}

/** Reads of both sides: the primary's server shows what it shipped, the replica's what it ran. */
function reads(servers) {
  const rows = servers.flatMap((server) => server.rows("reads"));
  const why = "No reads were sampled yet: a primary with replicas takes a part of its read-only statements (training.read_share).";
  fill(
    "reads",
    [
      plain("side", "side"),
      count("taken", "taken"),
      count("shipped", "shipped"),
      count("run again", "run"),
      count("rows", "rows"),
      duration("time spent", "spent_us"),
      count("late", "late"),
      count("queue full", "queue_full"),
      count("unfit", "unfit"),
      count("unknown", "unknown"),
      count("failed", "failed"),
    ],
    rows,
    missing(servers[0], "reads", why),
  );
}

function replicas(leader) {
  const columns = [
    plain("slot", "slot"),
    plain("state", "state"),
    size("behind", "behind_bytes"),
    duration("delay", "delay_us"),
    duration("p50", "delay_p50_us"),
    duration("p99", "delay_p99_us"),
    duration("longest", "delay_max_us"),
    plain("applied", "applied_lsn"),
  ];
  if (leader === null) {
    fill("replicas", columns, [], "Only the primary knows: add ?primary=127.0.0.1:PORT, the HTTP port of the primary, to this page's address.");
    return;
  }
  fill("replicas", columns, leader.rows("replication"), missing(leader, "replication", "No replica follows it."));
}

function hardware(server) {
  fill(
    "hardware",
    [plain("property", "property"), long("value", "value"), plain("tag", "tag")],
    server.rows("hardware"),
    missing(server, "hardware", "What machine it is was not measured yet."),
  );
}

function files(server) {
  const columns = [
    { title: "unit", of: (row) => (row.unit_id === 0 ? "context" : text(row.unit ?? row.unit_id)) },
    count("version", "version"),
    { title: "day", of: (row) => day(row.day), kind: "number" },
    plain("node", "node"),
    { title: "file", of: (row) => text(row.seq), kind: "number" },
    count("rows", "rows"),
    size("size", "bytes"),
  ];
  fill("samples", columns, server.rows("samples"), missing(server, "samples", "No files of samples yet."));
}

/** Shows everything of the two servers; `own` is this page's, either of the others may be null. */
export function showTables(own, leader, follower) {
  const subject = follower ?? own;
  const servers = [...new Set([leader ?? own, subject])];
  units(subject);
  models(subject);
  decisions(servers);
  candidates(servers);
  log(subject);
  reads(servers);
  replicas(leader);
  hardware(subject);
  files(subject);
}
