import { expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { atlsServerUpgrade, RotatingKeys, JOIN_CONTEXT } from '../../internal/atls/index.ts';
import type { Issuer } from '../../internal/attestation/index.ts';
import { MachineKeyIssuer, MachineKeyValidator } from '../../internal/attestation/machinekey/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { attestationSettings, parseProvisioning } from '../../internal/config/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { createTcpPair } from '../../internal/testing/index.ts';
import { clusterPolicy, createJoinUpgrades } from './cluster-evidence.ts';

const clock = new SystemClock();
const never = new AbortController().signal;
const newKey = () => new MachineKeyIssuer({ privKey: new Secret(generateKeyPairSync('ed25519').privateKey) });

const { attestation } = parseProvisioning(
  JSON.stringify({
    version: 1,
    platform: 'metal',
    ownerKeys: [Buffer.alloc(32, 7).toString('base64')],
    tpm: { kind: 'none' },
    attestation: {
      variants: ['sev-snp'],
      policy: {
        name: 'test',
        profile: 'identity',
        machines: 'any-proved',
        'sev-snp': {
          minimumTcb: { Milan: { bootloader: 4, tee: 0, snp: 8, microcode: 115 } },
          allowSmt: true,
          maxCollateralAgeDays: 30,
        },
      },
    },
  }),
);

/** A join service whose evidence is not an attestation report. */
const processor: Issuer = { variant: 'sev-snp', issue: () => Promise.resolve(new Uint8Array(100)) };

/** The reason why this machine refuses the join service. */
async function refusedAs(upgrades: ReturnType<typeof createJoinUpgrades>): Promise<string | undefined> {
  using tcp = await createTcpPair();
  const server = atlsServerUpgrade({
    trust: {
      trust: 'mutual',
      shows: [processor],
      accepts: [new MachineKeyValidator({ fingerprints: 'any' })],
      rules: () => ({ policy: { version: 't', registers: new Map(), machines: 'any' }, collateral: {} }),
    },
    context: JOIN_CONTEXT,
    keys: new RotatingKeys({ clock }),
    clock,
  });
  const [client] = await Promise.allSettled([upgrades()(tcp.client, never), server(tcp.server, never)]);
  if (client.status === 'fulfilled') return undefined;
  const { cause } = client.reason as Error;
  return findCoded(cause)?.code;
}

test('each connection verifies the cluster with the collateral that this machine has at that time', async () => {
  if (attestation === undefined) throw new TypeError('it was written above');
  const cache: { collateral: Awaited<ReturnType<Parameters<typeof createJoinUpgrades>[0]['collateral']>> } = {
    collateral: {},
  };
  const upgrades = createJoinUpgrades({
    issuers: [newKey()],
    attestation: attestationSettings(attestation),
    collateral: () => Promise.resolve(cache.collateral),
    clock,
  });
  expect(await refusedAs(upgrades)).toBe('attestation-policy-missing');
  cache.collateral = { snp: { certificates: [], crls: [] } };
  expect(await refusedAs(upgrades)).toBe('snp-report-size');
});

test('the owner of the cluster vouches for updated control planes, where the machine takes nothing but what the cluster CA has signed', () => {
  if (attestation === undefined) throw new TypeError('it was written above');
  const settings = attestationSettings(attestation);
  const policyInput = {
    name: 'measured',
    profile: 'measured',
    machines: 'any-proved',
    registers: { 4: { expected: 'ab'.repeat(32) } },
  };
  const measured = { ...settings, policyInput: { ...(settings.policyInput as object), ...policyInput } };
  expect(clusterPolicy(measured, 'settings').registers.size).toBe(1);
  const { registers, profile, snp, machines } = clusterPolicy(measured, 'owner');
  expect([registers.size, profile, machines]).toEqual([0, 'identity', 'any']);
  // The processor is judged as before.
  expect(snp).toEqual(clusterPolicy(measured, 'settings').snp);
});
