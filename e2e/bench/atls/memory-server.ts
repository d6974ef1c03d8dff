import { readFileSync } from 'node:fs';
import process, { argv, exit } from 'node:process';
import { createEndpoints, createServer, type Kind } from './endpoints.ts';

/**
 * The server of the memory comparison, alone in its process: `node --expose-gc … mtls|atls`. Says its port, then answers
 * each order with its anonymous memory in bytes.
 */
export type ServerOrder = 'collect' | 'measure';

const kind = argv[2] as Kind;
const { server } = await createEndpoints(kind);
const port = await createServer(server).listen('127.0.0.1', 0);

process.on('message', (order: ServerOrder) => {
  globalThis.gc?.();
  // Without holes, too: where they are is luck, and a page of V8's is more than a connection's share of the heap.
  if (order === 'measure') globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  process.send?.(anonymousBytes());
});
process.on('disconnect', () => exit(0));
process.send?.(port);

/** proc(5). */
function anonymousBytes(): number {
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) * 1024;
}
