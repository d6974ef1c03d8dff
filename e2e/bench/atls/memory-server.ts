import { readFileSync } from 'node:fs';
import process, { argv, exit } from 'node:process';
import { createEndpoints, createServer, type Kind } from './endpoints.ts';

/**
 * An order to the server process of the memory bench (`node --expose-gc … mtls|atls`). The process sends its
 * port first. It then answers each order with the number of bytes of its anonymous memory.
 */
export type ServerOrder = 'collect' | 'measure';

const kind = argv[2] as Kind;
const { server } = await createEndpoints(kind);
const port = await createServer(server).listen('127.0.0.1', 0);

process.on('message', (order: ServerOrder) => {
  globalThis.gc?.();
  // Also compacts the heap: a page of V8 is larger than the memory of a connection, so half-empty pages would
  // hide the result.
  if (order === 'measure') globalThis.gc?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  process.send?.(anonymousBytes());
});
process.on('disconnect', () => exit(0));
process.send?.(port);

/** proc(5). */
function anonymousBytes(): number {
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) * 1024;
}
