// node --test: needs nothing but Node.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { settled, within } from './working.mjs';

const SOON_MS = 20;

test('what is done in time is answered, and its fault too', async () => {
  assert.equal(await within(10_000, Promise.resolve(7), 'counting'), 7);
  await assert.rejects(within(10_000, Promise.reject(new Error('no')), 'counting'), /^Error: no$/);
});

test('what never ends is given up by name', async () => {
  await assert.rejects(within(SOON_MS, new Promise(() => {}), 'counting'), /counting took longer/);
});

test('settled asks until nothing is left', async () => {
  const left = [3, 1, 0];
  await settled({ unsettled: async () => left.shift() }, 10_000);
  assert.deepEqual(left, []);
});

test('what never settles is told', async () => {
  const side = { unsettled: async () => 3 };
  await assert.rejects(settled(side, SOON_MS), /^Error: 3 jobs are unsettled 0.02 s after/);
});
