// groupmq at its defaults, as a contender of the referee: see README.md beside this file.

import { createRequire } from 'node:module';

import { Queue, Worker } from 'groupmq';
import { Redis } from 'ioredis';

import { run } from '../js/run.mjs';

const { version: groupmq } = createRequire(import.meta.url)('groupmq/package.json');
const { version: ioredis } = createRequire(import.meta.url)('ioredis/package.json');

await run({
  Redis,
  versions: { groupmq, ioredis },
  absent: {
    transactional: 'jobs are in Valkey: they cannot commit with a row of a database',
    enqueue_bulk: 'no bulk call; add can gather calls (autoBatch), which is off by default',
  },
  open,
});

async function open(url, namespace, complain) {
  // A connection a row: groupmq keeps with it the digests of the scripts that it loaded.
  const redis = new Redis(url);
  redis.on('error', complain);
  const queue = new Queue({ redis, namespace });
  // Loads the script of the first call, and waits until the connection is there.
  await queue.getWaitingCount();
  return {
    add: ({ data, tenant }) => queue.add({ groupId: tenant, data }),
    work: (concurrency, handle) => {
      const worker = new Worker({ queue, concurrency, handler: async ({ data }) => handle(data) });
      worker.on('error', complain);
      return worker;
    },
    unsettled: async () => {
      const [waiting, active, delayed] = await Promise.all([
        queue.getWaitingCount(), queue.getActiveCount(), queue.getDelayedCount(),
      ]);
      return waiting + active + delayed;
    },
    close: () => queue.close(),
  };
}
