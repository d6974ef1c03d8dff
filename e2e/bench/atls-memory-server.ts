import process, { argv, exit, memoryUsage } from 'node:process';
import { createEnds, createServer, type Kind } from './atls-ends.ts';

/**
 * The server of the memory comparison, alone in its process: `node --expose-gc … mtls|atls`. Says its port, then
 * answers each message with its memory after a collection.
 */
const kind = argv[2] as Kind;
const { server } = await createEnds(kind);
const port = await createServer(server).listen('127.0.0.1', 0);

process.on('message', () => {
  globalThis.gc?.();
  globalThis.gc?.();
  process.send?.(memoryUsage().rss);
});
process.on('disconnect', () => exit(0));
process.send?.(port);
