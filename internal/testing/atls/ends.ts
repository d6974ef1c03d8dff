import type { Socket } from 'node:net';
import {
  atlsClientUpgrade,
  atlsServerUpgrade,
  REJECT_ALL_RULES,
  type PendingConnectionLimits,
  type AttestedPeer,
  type MutualTrust,
} from '../../atls/index.ts';
import { FixedKeys } from '../../atls/fake-tls-keys.ts';
import type { Issuer } from '../../attestation/index.ts';
import type { Upgrade } from '../../rpc/index.ts';
import { Secret } from '../../secret/index.ts';
import { FakeClock } from '../fake-clock.ts';
import { FakeIssuer, FakeValidator } from './hmac-evidence.ts';
import { createTestIdentity, type TestIdentity } from './identity.ts';

export const MACHINE_KEY = Buffer.alloc(32, 0x5a);
export const ATLS_CONTEXT = 'cluster-a/joinservice';
const never = new AbortController().signal;

/** Two honest ends of attested TLS with fake evidence, a fake clock and keys that the test can read. */
export interface AtlsEnds {
  readonly clock: FakeClock;
  readonly identity: { readonly client: TestIdentity; readonly server: TestIdentity };
  readonly issuer: { readonly client: FakeIssuer; readonly server: FakeIssuer };
  client(tcp: Socket): Promise<AttestedPeer>;
  server(tcp: Socket): Promise<AttestedPeer>;
  readonly upgrade: { readonly client: Upgrade<AttestedPeer>; readonly server: Upgrade<AttestedPeer> };
}

export interface AtlsEndsOptions {
  readonly limits?: PendingConnectionLimits;
  readonly clientContext?: string;
  readonly clientMeasurement?: string;
  readonly serverMeasurement?: string;
  /** Wraps the fake issuer of the server, to make it slow, failing or wrong. */
  readonly serverIssuer?: (fake: FakeIssuer) => Issuer;
}

export async function createAtlsEnds(options: AtlsEndsOptions = {}): Promise<AtlsEnds> {
  const clock = new FakeClock();
  const identity = { client: await createTestIdentity(), server: await createTestIdentity() };
  const issuer = {
    client: fakeIssuer(options.clientMeasurement),
    server: fakeIssuer(options.serverMeasurement),
  };
  const trust = (shows: Issuer): MutualTrust => ({
    trust: 'mutual',
    shows: [shows],
    accepts: [new FakeValidator({ variant: 'tpm', key: MACHINE_KEY })],
    rules: () => REJECT_ALL_RULES,
  });
  const upgrade = {
    client: atlsClientUpgrade({
      trust: trust(issuer.client),
      context: options.clientContext ?? ATLS_CONTEXT,
      keys: keysOf(identity.client),
      clock,
    }),
    server: atlsServerUpgrade({
      trust: trust(options.serverIssuer?.(issuer.server) ?? issuer.server),
      context: ATLS_CONTEXT,
      keys: keysOf(identity.server),
      clock,
      ...(options.limits === undefined ? {} : { limits: options.limits }),
    }),
  };
  const peerOf = (end: Upgrade<AttestedPeer>) => async (tcp: Socket) => (await end(tcp, never)).peer;
  return { clock, identity, issuer, upgrade, client: peerOf(upgrade.client), server: peerOf(upgrade.server) };
}

function fakeIssuer(measurement: string | undefined): FakeIssuer {
  return new FakeIssuer({
    variant: 'tpm',
    key: MACHINE_KEY,
    ...(measurement === undefined ? {} : { measurement }),
  });
}

function keysOf(identity: TestIdentity): FixedKeys {
  return new FixedKeys({ certPem: identity.certPem, keyPem: new Secret(identity.keyPem) });
}

/** The code with which a promise was refused, or "resolved". */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'resolved',
    (error: unknown) => (error instanceof Error && 'code' in error ? String(error.code) : String(error)),
  );
}
