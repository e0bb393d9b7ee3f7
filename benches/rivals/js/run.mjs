// One run of a contender: every row that is asked, in order, each on an empty queue.

import { ordersFrom, Report } from './contender.mjs';
import { ROWS } from './rows.mjs';
import { closed, within } from './working.mjs';

/** How long a row may take in all. */
const ROW_MS = 300_000;
const OPEN_MS = 10_000;

/**
 * @typedef {object} Rival
 * @property {Record<string, string>} versions of each part that matters
 * @property {Record<string, string>} absent the rows that it doesn't have, and why
 * @property {typeof import('ioredis').Redis} Redis the client that it runs on
 * @property {(url: string, queue: string, complain: (error: unknown) => void)
 *   => Promise<import('./rows.mjs').Side>} open connects, for one row
 */

/**
 * Does what the environment asks for, and ends the process.
 * @param {Rival} rival
 */
export async function run(rival) {
  // A rival that loses a promise or an event shall fail in its row, and not end the run.
  process.on('unhandledRejection', complain);
  process.on('uncaughtException', complain);
  // Nobody reads any more.
  process.stdout.on('error', () => process.exit(1));
  try {
    await runRows(rival, ordersFrom(process.env));
    process.exit(0);
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}

async function runRows(rival, { url, rows }) {
  const store = new rival.Redis(url);
  store.on('error', complain);
  new Report('versions', 0).line({
    ...rival.versions,
    node: process.versions.node,
    server: await serverVersion(store),
  });
  for (const [at, [row, n]] of rows.entries()) {
    const report = new Report(row, n);
    const why = rival.absent[row] ?? (ROWS[row] ? undefined : 'this contender knows no such row');
    if (why) report.absent(why);
    // A worker that a failed row left behind has a queue of its own.
    else await runRow(rival, url, `q${at}`, { store, row, n, report });
  }
}

async function runRow(rival, url, queue, { store, row, n, report }) {
  let side;
  try {
    await store.flushall('SYNC');
    side = await within(OPEN_MS, rival.open(url, queue, complain), 'connecting');
    await within(ROW_MS, ROWS[row]({ side, store, n, report }), 'the row');
  } catch (error) {
    report.failed(error.message);
  } finally {
    if (side) await closed(side);
  }
}

async function serverVersion(store) {
  const info = await store.info('server');
  const valkey = /^valkey_version:(\S+)/m.exec(info);
  return valkey ? `valkey ${valkey[1]}` : `redis ${/^redis_version:(\S+)/m.exec(info)?.[1]}`;
}

const complaints = new Set();

/** Says each fault once: a broken connection repeats itself. */
function complain(error) {
  const message = error?.message ?? String(error);
  if (complaints.has(message) || complaints.size > 100) return;
  complaints.add(message);
  console.error(message);
}
