// What rows with a worker have in common: jobs filled in first, a worker for a while, and the
// rival's own word that all is settled.

import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

const FILL = 1000;
/** How long the closing of something that may be broken can take. */
const CLOSE_MS = 5000;

/** Whose payload it is. */
export function id(data) {
  return data?.id;
}

/** Adds `jobs` in their order, by the fastest way that the rival has. */
export async function filled(side, jobs) {
  for (let at = 0; at < jobs.length; at += FILL) {
    const some = jobs.slice(at, at + FILL);
    await (side.addBulk ? side.addBulk(some) : Promise.all(some.map((job) => side.add(job))));
  }
}

/** Does `meanwhile` while a worker runs, and closes the worker whatever happens. */
export async function working(side, concurrency, handle, meanwhile) {
  const worker = side.work(concurrency, handle);
  try {
    await meanwhile();
  } finally {
    await closed(worker);
  }
}

/** Asks the rival until no job waits or is worked: the last completion is acknowledged. */
export async function settled(side, patienceMs) {
  const began = performance.now();
  for (let left = await side.unsettled(); left > 0; left = await side.unsettled()) {
    if (performance.now() - began > patienceMs) {
      throw new Error(`${left} jobs are unsettled ${patienceMs / 1000} s after their effects`);
    }
    await turn();
  }
}

/** Closes what may be broken: what doesn't close in time is left behind. */
export async function closed(what) {
  await within(CLOSE_MS, what.close(), 'closing').catch(() => {});
}

/**
 * Awaits `promise`, but not longer than `ms`.
 * @throws {Error} says what wasn't done in time
 */
export async function within(ms, promise, what) {
  const done = new AbortController();
  const late = sleep(ms, undefined, { signal: done.signal }).then(() => {
    throw new Error(`${what} took longer than ${ms / 1000} s`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    late.catch(() => {});
    done.abort();
  }
}
