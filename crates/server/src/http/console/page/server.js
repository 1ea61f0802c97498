// Server: what one server said last, and what follows from two of its answers.

/** How long an answer may take. */
const PATIENCE_MS = 4000;
/** Over how long rates are taken. */
const RATE_US = 5e6;

export class Server {
  /** `address` is HOST:PORT, as people are told; `base` is what its paths are relative to. */
  constructor(address, base) {
    this.address = address;
    this.url = new URL("/console.json", base);
    this.said = null;
    /** Since when it has not answered, in milliseconds of this page's clock; null while it does. */
    this.awaySince = null;
    this.why = "";
    this.counts = [];
  }

  /** Asks it once. */
  async poll() {
    try {
      const signal = AbortSignal.timeout(PATIENCE_MS);
      const answer = await fetch(this.url, { cache: "no-store", credentials: "omit", signal });
      if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
      this.said = await answer.json();
      this.awaySince = null;
      this.count();
    } catch (error) {
      this.awaySince ??= Date.now();
      this.why = error.name === "TimeoutError" ? "no answer in time" : error.message;
      this.counts = [];
    }
  }

  /** Returns whether its last answer is from this second. */
  get isThere() {
    return this.said !== null && this.awaySince === null;
  }

  /** Returns the rows of a view; none where it has not the view, or was not heard. */
  rows(view) {
    return this.said?.views?.[view]?.rows ?? [];
  }

  /** Returns the names of a view's columns, in its order. */
  columns(view) {
    return this.said?.views?.[view]?.columns ?? [];
  }

  /** Returns the first row of a view. */
  row(view) {
    return this.rows(view)[0] ?? null;
  }

  /** Returns why a view has no rows, if it said so. */
  error(view) {
    return this.said?.views?.[view]?.error ?? null;
  }

  get role() {
    return this.row("node")?.role ?? null;
  }

  /** Takes note of how many commits there were. */
  count() {
    const commits = this.row("node")?.commits;
    if (typeof commits !== "number") {
      this.counts = [];
      return;
    }
    const last = this.counts.at(-1);
    // Another life of the server counts from zero.
    if (last && (commits < last.commits || this.said.at_us < last.at_us)) this.counts = [];
    this.counts.push({ at_us: this.said.at_us, commits });
    while (this.counts.length > 2 && this.said.at_us - this.counts[0].at_us > RATE_US) this.counts.shift();
  }

  /** Returns commits a second over the last seconds; null until there are two answers. */
  get commitsPerSecond() {
    const [first, last] = [this.counts[0], this.counts.at(-1)];
    if (!first || first === last || last.at_us <= first.at_us) return null;
    return ((last.commits - first.commits) * 1e6) / (last.at_us - first.at_us);
  }
}
