import { afterEach, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { SystemClock } from '../clock/index.ts';
import { selfSignedCertificate } from '../crypto/index.ts';
import {
  implement,
  RpcChannel,
  RpcServer,
  tlsClientUpgrade,
  tlsServerUpgrade,
  type TlsIdentity,
} from '../rpc/index.ts';
import { Secret } from '../secret/index.ts';
import { createMemoryLogger } from '../testing/index.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import { LeaseStream } from './lease-stream.ts';
import { Lease } from './proto/gen/etcdserverpb_pb.js';

const signal = new AbortController().signal;
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

async function createIdentity(): Promise<TlsIdentity> {
  const keyPem = generateKeyPairSync('ed25519')
    .privateKey.export({ format: 'pem', type: 'pkcs8' })
    .toString();
  const certPem = await selfSignedCertificate({ keyPem, commonName: 'test', nowMs: Date.UTC(2026, 0, 1) });
  return { certPem, keyPem: new Secret(keyPem) };
}

/** Starts a member that does not respond on its first stream, and a client of this member. */
async function startMuteOnce() {
  let streams = 0;
  const taken = Promise.withResolvers<void>();
  const unused = (): never => {
    throw new Error('nobody asks for this');
  };
  const server = new RpcServer<unknown>({
    clock: new SystemClock(),
    upgrade: tlsServerUpgrade({
      clock: new SystemClock(),
      identity: await createIdentity(),
      accept: () => 'anybody',
    }),
    services: [
      implement(Lease, {
        leaseGrant: unused,
        leaseRevoke: unused,
        leaseTimeToLive: unused,
        leaseKeepAlive: async function* (requests) {
          const isMute = ++streams === 1;
          for await (const { id } of requests) {
            taken.resolve();
            if (!isMute) yield { id, ttlSeconds: 9n };
          }
        },
      }),
    ],
    disclose: 'chain',
    log: createMemoryLogger().log,
  });
  open.push(server);
  const port = await server.listen('127.0.0.1', 0);
  const channel = new RpcChannel({
    endpoint: `127.0.0.1:${port}`,
    upgrade: tlsClientUpgrade({
      clock: new SystemClock(),
      identity: await createIdentity(),
      accept: () => 'anybody',
    }),
  });
  const clock = new FakeClock();
  const leases = new LeaseStream({ channel, clock, failOver: () => undefined });
  open.push({
    [Symbol.asyncDispose]: () => {
      leases[Symbol.dispose]();
      channel[Symbol.dispose]();
      return Promise.resolve();
    },
  });
  return { leases, clock, taken: taken.promise, streams: () => streams };
}

test('LeaseStream closes a silent stream when a renewal times out, and renews over a new one', async () => {
  const { leases, clock, taken, streams } = await startMuteOnce();
  const lost = leases.keepAlive(1n, signal, 5_000);
  const outcome = expect(lost).rejects.toMatchObject({ code: 'etcd-unavailable' });
  await taken;
  await clock.advance(6_000);
  await outcome;
  expect(await leases.keepAlive(1n, signal, 5_000)).toBe(9);
  expect(streams()).toBe(2);
});
