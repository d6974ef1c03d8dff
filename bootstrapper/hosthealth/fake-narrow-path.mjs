/**
 * One end of the network of narrow-path.itest.ts. `serve HOST PORT`: a kube-proxy that answers every request. `try HOST PORT`: prints
 * the verdict about the way to this host.
 */
import { createServer } from 'node:http';
import { tryFullPackets } from './full-packets.ts';

const [role, host, port] = process.argv.slice(2);
if (role === 'serve') {
  createServer((_, response) => response.end('{}')).listen(Number(port), host, () => console.log('serves'));
} else {
  const verdict = await tryFullPackets(host, new AbortController().signal, {
    port: Number(port),
    timeoutMs: 2_000,
  });
  console.log(verdict);
}
