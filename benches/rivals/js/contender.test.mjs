// node --test: needs nothing but Node.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Effects, ordersFrom, PAYLOAD_BYTES, payload, percentiles, Report } from './contender.mjs';

const SOON_MS = 20;

test('rows come in the order asked', () => {
  const env = {
    REFEREE_URL: 'redis://127.0.0.1:7',
    REFEREE_ROWS: ' process_c10=6000  enqueue_1by1=3 ',
  };
  const { url, rows } = ordersFrom(env);
  assert.equal(url, 'redis://127.0.0.1:7');
  assert.deepEqual(rows, [['process_c10', 6000], ['enqueue_1by1', 3]]);
});

test('a row without a size is refused by name', () => {
  for (const order of ['process_c10', 'process_c10=', 'process_c10=many', 'process_c10=-1', '=1']) {
    const env = { REFEREE_URL: 'redis://127.0.0.1:7', REFEREE_ROWS: order };
    assert.throws(() => ordersFrom(env), (error) => error.message.startsWith(`${order}:`));
  }
});

test('a missing variable is named', () => {
  assert.throws(() => ordersFrom({ REFEREE_ROWS: 'process_c1=1' }), /REFEREE_URL/);
  assert.throws(() => ordersFrom({ REFEREE_URL: 'redis://127.0.0.1:7' }), /REFEREE_ROWS/);
});

test('a payload is 100 bytes of JSON and names its job', () => {
  for (const id of [0, 7, 123_456, 99_999_999]) {
    const made = JSON.stringify(payload(id));
    assert.equal(Buffer.byteLength(made), PAYLOAD_BYTES);
    assert.match(made, new RegExp(`^\\{"id":${id},"data":"x+"\\}$`));
  }
});

test('each job counts once and the rest is told apart', async () => {
  const effects = new Effects(3);
  for (const id of [0, 2, 2, 2]) effects.happened(id);
  assert.deepEqual([effects.done, effects.twice, effects.allDone], [2, 2, false]);
  const all = effects.all(10_000);
  effects.happened(1);
  await all;
  assert.deepEqual([effects.done, effects.twice, effects.allDone], [3, 2, true]);
});

test('a job that was never enqueued ends the wait', async () => {
  for (const strange of [3, -1, 1.5, undefined]) {
    const effects = new Effects(3);
    effects.happened(strange);
    await assert.rejects(effects.all(10_000), /never enqueued/);
    assert.equal(effects.done, 0);
  }
});

test('silence ends the wait, and says how far it came', async () => {
  const effects = new Effects(3);
  effects.happened(1);
  await assert.rejects(effects.all(SOON_MS), /no job was served for 0.02 s; 1 of 3 are done/);
});

test('no jobs are all there', () => new Effects(0).all(SOON_MS));

test('the first fifth is thrown away', () => {
  const waits = Array.from({ length: 25 }, () => 900);
  for (let ms = 1; ms <= 100; ms++) waits.push(ms);
  assert.deepEqual(percentiles(waits), { p50: 50, p99: 99 });
  assert.equal(percentiles([]), undefined);
});

test('a line is one object that names its row, and a failure is the last', () => {
  const lines = [];
  const report = new Report('process_c1', 10, (line) => lines.push(line));
  report.enqueued(2000);
  report.worked(3000, new Effects(10));
  report.absent('groups are paid');
  report.failed('died');
  report.line({ late: 'a worker that was left behind' });
  assert.deepEqual(lines, [
    '{"row":"process_c1","n":10,"per_s":5}\n',
    '{"row":"process_c1","n":10,"done":0,"twice":0,"per_s":3}\n',
    '{"row":"process_c1","absent":"groups are paid"}\n',
    '{"row":"process_c1","failed":"died"}\n',
  ]);
});
