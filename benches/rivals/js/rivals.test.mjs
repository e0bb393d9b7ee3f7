// Every installed rival in JavaScript against a real server: VALKEY_SERVER=<binary> node --test.
// The kill takes minutes, since a rival looks for what it lost only now and then.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const RIVALS = ['bullmq', 'groupmq'];
/** Rows that a rival doesn't have. */
const ABSENT = {
  bullmq: ['process_lanes', 'transactional'],
  groupmq: ['enqueue_bulk', 'transactional'],
};
/** What a rival serves before the last quiet job, of 2,000 noisy ones. */
const IS_FAIR = { bullmq: (noisy) => noisy === 2000, groupmq: (noisy) => noisy < 200 };
const ENQUEUE = ['enqueue_1by1', 'enqueue_50', 'enqueue_bulk'];
const PROCESS = ['process_c1', 'process_c10', 'process_c50', 'process_c200', 'process_lanes'];

for (const rival of RIVALS) {
  const folder = fileURLToPath(new URL(`../${rival}`, import.meta.url));
  const skip = !process.env.VALKEY_SERVER ? 'VALKEY_SERVER names no server'
    : !existsSync(join(folder, 'node_modules')) && `npm ci --ignore-scripts in ${rival} first`;

  test(`${rival}: every row is there and exact`, { skip }, async (t) => {
    const server = await Server.start(t, ['--appendonly', 'no']);
    const sizes = Object.fromEntries([...ENQUEUE, ...PROCESS].map((row) => [row, 1100]));
    Object.assign(sizes, { idle_pickup_ms: 50, bytes_a_job: 1000, fairness: 2000, recovery: 200 });
    Object.assign(sizes, { transactional: 10, no_such_row: 1 });
    assert.equal(await server.ask('SET planted 1'), '+OK');
    const heard = new Map();
    const hear = ({ row }) => heard.set(row, performance.now());
    const { rows, code } = await contend(t, folder, server.url, sizes, hear);

    assert.equal(code, 0);
    assert.equal(await server.ask('EXISTS planted'), ':0', 'rows begin on an empty server');
    assert.deepEqual([...rows.keys()], ['versions', ...Object.keys(sizes)]);
    for (const row of [...ABSENT[rival], 'no_such_row']) {
      assert.equal(typeof rows.get(row).absent, 'string', row);
      rows.delete(row);
    }
    for (const row of ENQUEUE.filter((row) => rows.has(row))) {
      const { n, per_s, ...more } = rows.get(row);
      assert.deepEqual({ n, more }, { n: 1100, more: { row } });
      assert.ok(per_s > 0);
    }
    for (const row of PROCESS.filter((row) => rows.has(row))) {
      const { per_s, ...exact } = rows.get(row);
      assert.deepEqual(exact, { row, n: 1100, done: 1100, twice: 0 });
      assert.ok(per_s > 0);
    }
    const { p50, p99 } = rows.get('idle_pickup_ms');
    const row = heard.get('idle_pickup_ms') - heard.get('process_c10');
    assert.ok(p50 > 0 && p50 <= p99 && p99 < row, `${p50} ${p99}: no wait is longer than the row`);
    assert.ok(rows.get('bytes_a_job').bytes > 100);
    assert.equal(rows.get('fairness').quiet, 20);
    assert.ok(IS_FAIR[rival](rows.get('fairness').noisy_before_last_quiet));
    assert.deepEqual(rows.get('recovery'), { row: 'recovery', n: 200, done: 200, twice: 0 });
  });

  test(`${rival}: a kill is survived, or told`, { skip }, async (t) => {
    const server = await Server.start(t, ['--appendonly', 'yes']);
    let served = 0;
    const killed = async (line) => {
      if (line.served_us && ++served === 500) await server.killAndRestart();
    };
    const sizes = { recovery: 3000, enqueue_1by1: 10, process_c10: 100 };
    const { rows, code } = await contend(t, folder, server.url, sizes, killed);

    assert.equal(code, 0);
    assert.ok(served >= 500);
    const { failed, done, twice } = rows.get('recovery');
    if (failed) t.diagnostic(`${rival}: ${failed}`);
    else t.diagnostic(`${rival}: done ${done}, twice ${twice}`);
    assert.ok(failed?.startsWith("no job was served within 30 s of the server's return")
      || done === 3000, JSON.stringify(rows.get('recovery')));
    // Whatever the kill did to the rival stays in its row.
    assert.equal(rows.get('enqueue_1by1').n, 10);
    assert.deepEqual(rows.get('process_c10').done, 100);
  });
}

/** Runs a contender; the last line of each row, and the exit code. */
async function contend(t, folder, url, sizes, eachLine = () => {}) {
  const REFEREE_ROWS = Object.entries(sizes).map(([row, n]) => `${row}=${n}`).join(' ');
  const contender = spawn(process.execPath, ['run.js'], {
    cwd: folder,
    env: { ...process.env, REFEREE_URL: url, REFEREE_ROWS },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => contender.kill('SIGKILL'));
  const exited = once(contender, 'exit');
  const rows = new Map();
  for await (const text of createInterface({ input: contender.stdout })) {
    const line = JSON.parse(text);
    rows.set(line.row, line);
    await eachLine(line);
  }
  const [code] = await exited;
  return { rows, code };
}

/**
 * Runs a server and kills it when this process closes the pipe, or ends in whatever way: a test
 * that is killed leaves no server behind.
 */
const LEASH = '"$@" </dev/null & read -r _; kill -9 $!; wait';

class Server {
  #port;
  #dir;
  #args;
  #child;

  static async start(t, args) {
    const server = new Server();
    server.#port = await freePort();
    server.#dir = mkdtempSync(join(tmpdir(), 'rival-'));
    server.#args = args;
    t.after(async () => {
      await server.#kill();
      rmSync(server.#dir, { recursive: true, force: true });
    });
    await server.#spawn();
    return server;
  }

  get url() {
    return `redis://127.0.0.1:${this.#port}`;
  }

  /** One command, and the first line of its answer. */
  async ask(command) {
    const socket = connect(this.#port, '127.0.0.1');
    socket.write(`${command}\r\n`);
    const [answer] = await once(createInterface({ input: socket }), 'line');
    socket.destroy();
    return answer;
  }

  async killAndRestart() {
    await this.#kill();
    await this.#spawn();
  }

  async #kill() {
    if (this.#child.exitCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.stdin.end();
    await exited;
  }

  async #spawn() {
    const place = ['--port', String(this.#port), '--dir', this.#dir, '--save', ''];
    const server = [process.env.VALKEY_SERVER, ...place, ...this.#args];
    this.#child = spawn('sh', ['-c', LEASH, 'sh', ...server], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    const lines = createInterface({ input: this.#child.stdout });
    await new Promise((resolve, reject) => {
      // Every later line is read too, so that the server never waits for its log.
      lines.on('line', (line) => line.includes('Ready to accept connections') && resolve());
      lines.on('close', () => reject(new Error('the server ended before it was ready')));
    });
  }
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}
