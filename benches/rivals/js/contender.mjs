// What one side of the referee speaks, for contenders in JavaScript: orders from the environment,
// rows as JSON lines, and the measures that all sides take the same way. The protocol is described
// in benches/README.md; the crate `contender` is the same for Rust.

/** Bytes of every job's payload, as JSON. */
export const PAYLOAD_BYTES = 100;

/**
 * The orders of one run.
 * @param {Record<string, string | undefined>} env the environment
 * @returns {{ url: string, rows: [string, number][] }} rows in the order in which to do them
 * @throws {Error} a variable that is missing, or a row that isn't `<row>=<n>`
 */
export function ordersFrom(env) {
  const url = env.REFEREE_URL;
  if (!url) throw new Error('set REFEREE_URL to an empty server, redis://127.0.0.1:<port>');
  if (env.REFEREE_ROWS === undefined) {
    throw new Error('set REFEREE_ROWS, such as "enqueue_1by1=3000 process_c10=6000"');
  }
  const orders = env.REFEREE_ROWS.split(/\s+/).filter((order) => order !== '');
  return { url, rows: orders.map(rowAndSize) };
}

function rowAndSize(order) {
  const [, row, n] = /^([^=]+)=(\d+)$/.exec(order) ?? [];
  if (row === undefined) throw new Error(`${order}: a row is <row>=<n>`);
  return [row, Number(n)];
}

/**
 * The payload of job `id`: written as JSON it has PAYLOAD_BYTES bytes.
 * @param {number} id
 */
export function payload(id) {
  const bare = JSON.stringify({ id, data: '' }).length;
  return { id, data: 'x'.repeat(Math.max(0, PAYLOAD_BYTES - bare)) };
}

/** Exact delivery, counted: the effects of jobs 0 to n - 1. */
export class Effects {
  #times;
  #whenAll;
  #end;

  /** Different jobs whose effect happened. */
  done = 0;
  /** Effects beyond the first of a job. */
  twice = 0;

  constructor(n) {
    this.#times = new Uint32Array(n);
    this.#whenAll = new Promise((resolve, reject) => {
      this.#end = { resolve, reject };
    });
    // Whoever waits sees the rejection; nobody may be waiting yet.
    this.#whenAll.catch(() => {});
    if (n === 0) this.#end.resolve();
  }

  /** Whether every job has had its effect. */
  get allDone() {
    return this.done === this.#times.length;
  }

  /**
   * Job `id` has its effect. A job that was never enqueued ends the row: a rival that makes up
   * jobs isn't measured.
   */
  happened(id) {
    const times = this.#times[id];
    if (times === undefined) {
      this.#end.reject(new Error(`a job was served that was never enqueued: ${id}`));
      return;
    }
    this.#times[id] = times + 1;
    if (times > 0) this.twice += 1;
    else {
      this.done += 1;
      if (this.allDone) this.#end.resolve();
    }
  }

  /**
   * Waits until every job has had its effect. Being acknowledged is more: a contender waits for
   * that too before it stops its clock.
   * @param {number} patienceMs how long nothing may happen
   * @throws {Error} when nothing did for that long
   */
  async all(patienceMs) {
    let seen = -1;
    let since = 0;
    const watch = setInterval(() => {
      if (this.done + this.twice !== seen) {
        seen = this.done + this.twice;
        since = performance.now();
      } else if (performance.now() - since >= patienceMs) {
        const silence = `no job was served for ${patienceMs / 1000} s`;
        this.#end.reject(new Error(`${silence}; ${this.done} of ${this.#times.length} are done`));
      }
    }, Math.min(250, patienceMs));
    try {
      await this.#whenAll;
    } finally {
      clearInterval(watch);
    }
  }
}

/**
 * Of how long each job waited, in the order of enqueueing: the first fifth, which warms up, is
 * thrown away.
 * @param {ArrayLike<number>} waitsMs
 * @returns {{ p50: number, p99: number } | undefined} undefined when nothing is left
 */
export function percentiles(waitsMs) {
  const kept = Float64Array.from(waitsMs).subarray(Math.floor(waitsMs.length / 5)).sort();
  if (kept.length === 0) return undefined;
  const at = (percent) => kept[Math.floor(((kept.length - 1) * percent) / 100)];
  return { p50: toMicroseconds(at(50)), p99: toMicroseconds(at(99)) };
}

function toMicroseconds(ms) {
  return Math.round(ms * 1000) / 1000;
}

/** Prints the lines of one row. */
export class Report {
  #row;
  #n;
  #print;
  #ended = false;

  /**
   * @param {string} row
   * @param {number} n the size that was asked
   * @param {(line: string) => void} print where lines go
   */
  constructor(row, n, print = (line) => process.stdout.write(line)) {
    this.#row = row;
    this.#n = n;
    this.#print = print;
  }

  /** `n` jobs were enqueued. */
  enqueued(tookMs) {
    this.line({ n: this.#n, per_s: this.#rate(tookMs) });
  }

  /** The jobs were worked, the last one acknowledged. */
  worked(tookMs, { done, twice }) {
    this.line({ n: this.#n, done, twice, per_s: this.#rate(tookMs) });
  }

  /** This side has no such row. */
  absent(why) {
    this.line({ absent: why });
  }

  /** This side came to grief in this row, and says no more in it. */
  failed(what) {
    this.line({ failed: what });
    this.#ended = true;
  }

  /** Fields of one more line of this row. */
  line(fields) {
    if (!this.#ended) this.#print(`${JSON.stringify({ row: this.#row, ...fields })}\n`);
  }

  #rate(tookMs) {
    return Math.floor((this.#n * 1000) / tookMs);
  }
}
