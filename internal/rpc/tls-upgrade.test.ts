import { expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { SystemClock } from '../clock/index.ts';
import { selfSignedCertificate } from '../crypto/index.ts';
import { Secret } from '../secret/index.ts';
import { createTcpPair } from '../testing/network/tcp-pair.ts';
import { tlsClientUpgrade, tlsServerUpgrade, type TlsIdentity } from './tls-upgrade.ts';

const never = new AbortController().signal;

async function createIdentity(): Promise<TlsIdentity> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const keyPem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  const certPem = await selfSignedCertificate({ keyPem, commonName: 'test', nowMs: Date.UTC(2026, 0, 1) });
  return { certPem, keyPem: new Secret(keyPem) };
}

async function createEnds() {
  const identity = await createIdentity();
  const accept = () => 'known';
  return {
    server: tlsServerUpgrade({ clock: new SystemClock(), identity, accept }),
    client: tlsClientUpgrade({ clock: new SystemClock(), identity, accept }),
  };
}

test.each([
  { name: 'all bytes at once', pieces: [] },
  { name: 'one byte first, then the rest', pieces: [1] },
  { name: 'byte by byte', pieces: Array.from({ length: 40 }, () => 1) },
])('tlsServerUpgrade() completes the handshake however the first bytes arrive: $name', async ({ pieces }) => {
  const { server, client } = await createEnds();
  using near = await createTcpPair();
  using far = await createTcpPair();
  const asked = client(near.client, never);
  far.client.pipe(near.server);
  const [first] = (await once(near.server, 'data')) as [Buffer];
  near.server.pause();
  const served = pieces.length === 0 ? undefined : server(far.server, never);
  let at = 0;
  for (const size of pieces) far.client.write(first.subarray(at, (at += size)));
  far.client.write(first.subarray(at));
  near.server.pipe(far.client);
  if (served === undefined) await once(far.server, 'readable');
  const ends = await Promise.all([asked, served ?? server(far.server, never)]);
  expect(ends.map(({ peer }) => peer)).toEqual(['known', 'known']);
  const [calling, serving] = ends;
  calling.socket.write('hello');
  expect(String(((await once(serving.socket, 'data')) as [Buffer])[0])).toBe('hello');
});

test('tlsServerUpgrade() fails when the client disconnects before its first byte', async () => {
  const { server } = await createEnds();
  using tcp = await createTcpPair();
  const served = server(tcp.server, never);
  tcp.client.end();
  await expect(served).rejects.toMatchObject({ code: 'rpc-unreachable' });
});

test('tlsServerUpgrade() stops waiting for the first byte when its signal fires', async () => {
  const { server } = await createEnds();
  using tcp = await createTcpPair();
  const closing = new AbortController();
  const served = server(tcp.server, closing.signal);
  const outcome = expect(served).rejects.toThrow('the server is closing');
  closing.abort(new Error('the server is closing'));
  await outcome;
});
