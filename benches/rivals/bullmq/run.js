// BullMQ at its defaults, as a contender of the referee: see README.md beside this file.

import { createRequire } from 'node:module';

import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

import { run } from '../js/run.mjs';

const { version: bullmq } = createRequire(import.meta.url)('bullmq/package.json');
const { version: ioredis } = createRequire(import.meta.url)('ioredis/package.json');

await run({
  Redis,
  versions: { bullmq, ioredis },
  absent: {
    transactional: 'jobs are in Valkey: they cannot commit with a row of a database',
    process_lanes: 'groups are in BullMQ Pro, which is paid',
  },
  open,
});

async function open(url, name, complain) {
  const connection = { url };
  const queue = new Queue(name, { connection });
  queue.on('error', complain);
  await queue.waitUntilReady();
  return {
    add: ({ data }) => queue.add('job', data),
    addBulk: (jobs) => queue.addBulk(jobs.map(({ data }) => ({ name: 'job', data }))),
    work: (concurrency, handle) => {
      const handler = async ({ data }) => handle(data);
      const worker = new Worker(name, handler, { connection, concurrency });
      worker.on('error', complain);
      return worker;
    },
    unsettled: () => queue.getJobCountByTypes(
      'wait', 'active', 'delayed', 'prioritized', 'paused', 'waiting-children',
    ),
    close: () => queue.close(),
  };
}
