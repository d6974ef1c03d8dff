import { expect, test } from '@jest/globals';
import { RpcError } from '../rpc/index.ts';
import { createCaCertPem, generateKeyPem } from '../pki/index.ts';
import { FakeClock } from '../testing/index.ts';
import { EtcdConnection } from './connection.ts';

const signal = new AbortController().signal;

/** Reads from a member that answers with these errors, then with success. Returns how often it was asked. */
async function readThrough(...messages: readonly string[]): Promise<number> {
  const keyPem = generateKeyPem();
  using connection = new EtcdConnection({
    endpoints: ['127.0.0.1:1'],
    identity: { certPem: '', keyPem },
    serverCaPem: await createCaCertPem({ commonName: 'etcd', keyPem, nowMs: 0 }),
    clock: new FakeClock(),
  });
  let asked = 0;
  await connection.read('reading', { signal }, () => {
    const message = messages[asked++];
    if (message === undefined) return Promise.resolve();
    throw new RpcError('rpc-unreachable', 'calling Range', { cause: new Error(message) });
  });
  return asked;
}

test('read() is repeated at once when the members have elected another leader', async () => {
  expect(await readThrough('etcdserver: leader changed')).toBe(2);
});

test('read() is not repeated at the only member when there is no leader, or when leaders change all the time', async () => {
  for (const messages of [['etcdserver: no leader'], Array(9).fill('etcdserver: leader changed') as string[]])
    await expect(readThrough(...messages)).rejects.toMatchObject({ code: 'etcd-unavailable' });
});
