// The row in which the referee kills the server and starts it again.

import { setTimeout as sleep } from 'node:timers/promises';

import { Effects } from './contender.mjs';
import { filled, id, working } from './working.mjs';

const HANDLER_MS = 1;
/** A rival that serves nothing for this long, with a server there, hasn't recovered. */
const RECOVERY_MS = 30_000;
/**
 * How long one that did recover has for the jobs that it held when the server died. Both rivals
 * look for such jobs every 30 s, and hold one for 30 s first.
 */
const STRAGGLERS_MS = 90_000;
const LOOK_EVERY_MS = 50;

/**
 * @param {import('./rows.mjs').Row} row
 * @param {import('./rows.mjs').Job[]} jobs
 */
export async function recovery({ side, store, n, report }, jobs) {
  await filled(side, jobs);
  const effects = new Effects(n);
  const progress = new Progress(store);
  const handle = async (data) => {
    report.line({ served_us: unixMicros() });
    progress.served();
    await sleep(HANDLER_MS);
    effects.happened(id(data));
  };
  await working(side, 10, handle, () => finished(side, effects, progress));
  report.line({ n, done: effects.done, twice: effects.twice });
}

function unixMicros() {
  return Math.round((performance.timeOrigin + performance.now()) * 1000);
}

/** Waits until all is done and settled; short of that, until nothing more can be expected. */
async function finished(side, effects, progress) {
  for (;;) {
    if (await isFinished(side, effects)) return;
    if (progress.stalledFor(RECOVERY_MS)) {
      throw new Error(`no job was served within ${RECOVERY_MS / 1000} s of ${progress.last}; `
        + `${effects.done} are done`);
    }
    if (progress.quietFor(STRAGGLERS_MS)) return;
    await sleep(LOOK_EVERY_MS);
  }
}

async function isFinished(side, effects) {
  if (!effects.allDone) return false;
  try {
    return (await side.unsettled()) === 0;
  } catch {
    // The server may be away just now.
    return false;
  }
}

/** What happened last: the start, the server's return, or a job. */
class Progress {
  /** @type {'the start' | "the server's return" | 'a job'} */
  last = 'the start';
  #since = performance.now();
  #isAway = false;

  constructor(store) {
    store.on('close', () => {
      this.#isAway = true;
    });
    store.on('ready', () => {
      this.#isAway = false;
      this.#happened("the server's return");
    });
  }

  served() {
    // What starts while the server is away was fetched before: it shows no recovery.
    if (!this.#isAway) this.#happened('a job');
  }

  stalledFor(ms) {
    return this.last !== 'a job' && this.quietFor(ms);
  }

  quietFor(ms) {
    return performance.now() - this.#since > ms;
  }

  #happened(what) {
    this.last = what;
    this.#since = performance.now();
  }
}
