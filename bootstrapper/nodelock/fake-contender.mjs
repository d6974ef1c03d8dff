/** One of two processes that reach for the same node lock: an agent that has accepted an init, or got a ticket. */
import { DiskFiles } from '../../internal/file/index.ts';
import { NodeLock } from './node-lock.ts';

process.on('message', async ({ path, claim, atMs }) => {
  const lock = new NodeLock({ files: new DiskFiles(), path, nowMs: () => Date.now() });
  while (Date.now() < atMs); // both reach for it in this instant
  try {
    const { by } = await lock.acquire(claim);
    process.send({ won: by });
  } catch (error) {
    process.send({ code: error.code ?? String(error), clusterId: error.details?.clusterId });
  }
});
process.send('ready');
