import { createHash, X509Certificate } from 'node:crypto';
import {
  atlsClientUpgrade,
  atlsServerUpgrade,
  REJECT_ALL_RULES,
  type MutualTrust,
} from '../../../internal/atls/index.ts';
import { FixedKeys } from '../../../internal/atls/fake-tls-keys.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { createLogger } from '../../../internal/logging/index.ts';
import {
  createClient,
  fingerprintOf,
  implement,
  RpcChannel,
  RpcServer,
  tlsClientUpgrade,
  tlsServerUpgrade,
  type Upgrade,
} from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import {
  createTestIdentity,
  Echo,
  FakeIssuer,
  FakeValidator,
  type TestIdentity,
} from '../../../internal/testing/atls/index.ts';
import { plainServerUpgrade } from './plain-mtls.ts';

/**
 * The compared variants: plain mTLS and attested TLS. The kind `own` is mTLS with our own server; it is
 * measured for information only.
 */
export const KINDS = ['mtls', 'atls'] as const;
export type Compared = (typeof KINDS)[number];
export type Kind = Compared | 'own';

export const clock = new SystemClock();
export const never = new AbortController().signal;
/** The bench and the process of the server derive the same key. */
const MACHINE_KEY = createHash('sha256').update('bench').digest();

/**
 * Client and server of one variant: mTLS with a fixed certificate whose key the client compares, or aTLS with
 * evidence that takes no time to create or verify.
 */
export interface Endpoints {
  readonly server: Upgrade<unknown>;
  readonly client: Upgrade<unknown>;
}

export async function createEndpoints(kind: Kind): Promise<Endpoints> {
  const [server, client] = await Promise.all([createTestIdentity(), createTestIdentity()]);
  const [ofServer, ofClient] = [identityOf(server), identityOf(client)];
  if (kind === 'atls') {
    const trust = zeroCostTrust();
    const options = { trust, context: 'bench', clock } as const;
    return {
      server: atlsServerUpgrade({ ...options, keys: new FixedKeys(ofServer) }),
      client: atlsClientUpgrade({ ...options, keys: new FixedKeys(ofClient) }),
    };
  }
  return {
    server:
      kind === 'own'
        ? tlsServerUpgrade({ clock, identity: ofServer, accept: fingerprintOf })
        : plainServerUpgrade(ofServer),
    client: tlsClientUpgrade({
      clock,
      identity: ofClient,
      accept: only(fingerprintOf(new X509Certificate(server.certPem))),
    }),
  };
}

/**
 * Creates a client for a server in another process. The client accepts any server certificate, because it cannot know
 * the certificate of the other process.
 */
export async function createClientEndpoint(kind: Kind): Promise<Upgrade<unknown>> {
  const identity = identityOf(await createTestIdentity());
  if (kind !== 'atls') return tlsClientUpgrade({ clock, identity, accept: fingerprintOf });
  return atlsClientUpgrade({
    trust: zeroCostTrust(),
    context: 'bench',
    clock,
    keys: new FixedKeys(identity),
  });
}

export function createServer(upgrade: Upgrade<unknown>): RpcServer<unknown> {
  return new RpcServer<unknown>({
    clock,
    upgrade,
    services: [implement(Echo, { echo: (request) => Promise.resolve({ value: request.value }) })],
    disclose: 'chain',
    log: createLogger({ path: 'bench', nowMs: () => clock.nowMs(), sink: () => undefined }),
    maxConnections: 2_000,
  });
}

const PAYLOAD = Buffer.alloc(128, 7);

export async function ask(channel: RpcChannel): Promise<void> {
  await createClient(Echo, channel).echo({ value: PAYLOAD }, { signal: never });
}

export function dial(port: number, upgrade: Upgrade<unknown>): RpcChannel {
  return new RpcChannel({ endpoint: `127.0.0.1:${port}`, upgrade });
}

function zeroCostTrust(): MutualTrust {
  const machine = { variant: 'tpm', key: MACHINE_KEY } as const;
  return {
    trust: 'mutual',
    shows: [new FakeIssuer(machine)],
    accepts: [new FakeValidator(machine)],
    rules: () => REJECT_ALL_RULES,
  };
}

function identityOf({ certPem, keyPem }: TestIdentity): {
  readonly certPem: string;
  readonly keyPem: Secret<string>;
} {
  return { certPem, keyPem: new Secret(keyPem) };
}

function only(fingerprint: string): (certificate: X509Certificate) => string {
  return (certificate) => {
    const shown = fingerprintOf(certificate);
    if (shown !== fingerprint) throw new Error(`verifying the server: it has another key, ${shown}`);
    return shown;
  };
}
