// The rows of the referee, done through what one rival gives. A rival's own file says how to open
// its queue, add jobs and work them, and nothing of how that is measured.

import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

import { Effects, payload, percentiles } from './contender.mjs';
import { recovery } from './recovery.mjs';
import { filled, id, settled, working } from './working.mjs';

/**
 * @typedef {object} Job
 * @property {ReturnType<typeof payload>} data
 * @property {string} tenant whose job it is; a rival without tenants leaves it out
 *
 * @typedef {object} Side one rival's queue, open for one row
 * @property {(job: Job) => Promise<unknown>} add
 * @property {((jobs: Job[]) => Promise<unknown>)=} addBulk
 * @property {(concurrency: number, handle: (data: Job['data']) => Promise<void> | void) => Worker}
 *   work starts a worker
 * @property {() => Promise<number>} unsettled jobs that wait or are worked, by the rival's counts
 * @property {() => Promise<unknown>} close
 *
 * @typedef {{ close: () => Promise<unknown> }} Worker
 *
 * @typedef {object} Row what a row is done with
 * @property {Side} side
 * @property {import('ioredis').Redis} store the referee's own connection to the server
 * @property {number} n
 * @property {import('./contender.mjs').Report} report
 */

/**
 * How long nothing may be served before a row is given up: longer than the slowest heartbeat among
 * the defaults, 30 seconds.
 */
const PATIENCE_MS = 45_000;
const BULK = 1000;
const TENANTS = 100;
const PICKUP_EVERY_MS = 3;
const QUIET_TENANTS = 10;

/** @type {Record<string, (row: Row) => Promise<void>>} */
export const ROWS = {
  enqueue_1by1: (row) => enqueue(row, 1),
  enqueue_50: (row) => enqueue(row, 50),
  enqueue_bulk: enqueueBulk,
  process_c1: (row) => work(row, 1),
  process_c10: (row) => work(row, 10),
  process_c50: (row) => work(row, 50),
  process_c200: (row) => work(row, 200),
  process_lanes: (row) => work(row, 50),
  idle_pickup_ms: idlePickup,
  bytes_a_job: bytesAJob,
  fairness,
  recovery: (row) => recovery(row, jobs(row.n)),
};

/** @returns {Job[]} n jobs, the tenants in turn */
function jobs(n) {
  return Array.from({ length: n }, (_, i) => ({ data: payload(i), tenant: `t${i % TENANTS}` }));
}

async function enqueue({ side, n, report }, tasks) {
  const queued = jobs(n);
  let next = 0;
  const task = async () => {
    while (next < n) await side.add(queued[next++]);
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: tasks }, task));
  report.enqueued(performance.now() - began);
}

async function enqueueBulk({ side, n, report }) {
  const queued = jobs(n);
  const began = performance.now();
  for (let at = 0; at < n; at += BULK) await side.addBulk(queued.slice(at, at + BULK));
  report.enqueued(performance.now() - began);
}

async function work({ side, n, report }, concurrency) {
  await filled(side, jobs(n));
  const effects = new Effects(n);
  const began = performance.now();
  await working(side, concurrency, (data) => effects.happened(id(data)), async () => {
    await effects.all(PATIENCE_MS);
    await settled(side, PATIENCE_MS);
    report.worked(performance.now() - began, effects);
  });
}

async function idlePickup({ side, n, report }) {
  const queued = jobs(n);
  const effects = new Effects(n);
  const waits = new Float64Array(n);
  const start = (data) => {
    waits[id(data)] += performance.now();
    effects.happened(id(data));
  };
  await working(side, 10, start, async () => {
    const began = performance.now();
    const sent = [];
    for (let i = 0; i < n; i++) {
      await until(began + i * PICKUP_EVERY_MS);
      waits[i] -= performance.now();
      sent.push(side.add(queued[i]));
    }
    await Promise.all(sent);
    await effects.all(PATIENCE_MS);
  });
  const found = percentiles(waits);
  if (found) report.line({ n, ...found });
  else report.failed('no job was served');
}

/** Timers may fire a little early, and never stand in the way of what is under way. */
async function until(due) {
  for (let now = performance.now(); now < due; now = performance.now()) {
    if (due - now >= 1) await sleep(due - now);
    else await turn();
  }
}

async function bytesAJob({ side, store, n, report }) {
  const before = await usedBytes(store);
  await filled(side, jobs(n));
  report.line({ n, bytes: Math.round((await usedBytes(store) - before) / n) });
}

async function usedBytes(store) {
  return Number(/^used_memory:(\d+)/m.exec(await store.info('memory'))[1]);
}

/** The noisy tenant's jobs are those below n. */
async function fairness({ side, n, report }) {
  const each = Math.max(1, Math.floor(n / 1000));
  const quiet = QUIET_TENANTS * each;
  const tenant = (i) => (i < n ? 'noisy' : `quiet${Math.floor((i - n) / each)}`);
  const ids = Array.from({ length: n + quiet }, (_, i) => i);
  await filled(side, ids.map((i) => ({ data: payload(i), tenant: tenant(i) })));
  const effects = new Effects(n + quiet);
  let noisy = 0;
  let noisyBeforeLastQuiet = 0;
  const handle = (data) => {
    if (id(data) < n) noisy += 1;
    else noisyBeforeLastQuiet = noisy;
    effects.happened(id(data));
  };
  await working(side, 10, handle, () => effects.all(PATIENCE_MS));
  report.line({ n, quiet, noisy_before_last_quiet: noisyBeforeLastQuiet });
}
