import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from '@jest/globals';
import { findFreePort } from '../../internal/testing/index.ts';
import { connectProbe, httpProbe } from './local-probes.ts';

const signal = new AbortController().signal;

test('httpProbe() accepts a program that answers 200, and tells what another answer says', async () => {
  const state = { status: 200 };
  const server = createServer((_, response) => response.writeHead(state.status).end('syncloop failed'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const probe = httpProbe(port, '/healthz');
  try {
    await probe(signal);
    state.status = 500;
    await expect(probe(signal)).rejects.toThrow('healthz answered 500: syncloop failed');
    await connectProbe({ host: '127.0.0.1', port })(signal);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test('probes tell that nothing listens', async () => {
  const port = await findFreePort();
  await expect(httpProbe(port, '/healthz')(signal)).rejects.toThrow('ECONNREFUSED');
  await expect(connectProbe({ host: '127.0.0.1', port })(signal)).rejects.toThrow('ECONNREFUSED');
  await expect(connectProbe({ path: '/nothing' })(signal)).rejects.toThrow('ENOENT');
});
