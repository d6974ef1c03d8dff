import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';

/** Servers on this machine whose TLS fails, each in its own way. */
export interface TlsPeers extends AsyncDisposable {
  /** "127.0.0.1:PORT" by the name of the server. */
  readonly addresses: Readonly<Record<(typeof TLS_PEERS)[number], string>>;
}

/** What each server does. */
export const TLS_PEERS = [
  'foreign', // has a certificate that nobody knows
  'old', // speaks TLS 1.1 at most, and refuses the handshake with an alert
  'plain', // answers in plain HTTP
  'closing', // closes the connection after the first message
] as const;

/** Starts the servers. */
export async function createTlsPeers(): Promise<TlsPeers> {
  const key = generateKeyPem();
  const cert = await createCaCertPem({ commonName: 'somebody', keyPem: key, nowMs: Date.now() });
  const identity = { key: key.reveal(), cert };
  const servers: Readonly<Record<(typeof TLS_PEERS)[number], Server>> = {
    foreign: createTlsServer(identity, (socket) => socket.on('error', () => undefined)),
    old: createTlsServer({ ...identity, minVersion: 'TLSv1', maxVersion: 'TLSv1.1' }),
    plain: createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n'));
    }),
    closing: createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => socket.end());
    }),
  };
  const addresses: [string, string][] = [];
  for (const name of TLS_PEERS) {
    servers[name].on('tlsClientError', () => undefined);
    await once(servers[name].listen(0, '127.0.0.1'), 'listening');
    addresses.push([name, `127.0.0.1:${(servers[name].address() as AddressInfo).port}`]);
  }
  return {
    addresses: Object.fromEntries(addresses) as TlsPeers['addresses'],
    [Symbol.asyncDispose]: async () => {
      for (const server of Object.values(servers)) await new Promise((done) => void server.close(done));
    },
  };
}
