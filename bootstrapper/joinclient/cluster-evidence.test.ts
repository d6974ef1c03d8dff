import { describe, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { atlsServerUpgrade, RotatingKeys, JOIN_CONTEXT } from '../../internal/atls/index.ts';
import type { Issuer } from '../../internal/attestation/index.ts';
import { MachineKeyIssuer, MachineKeyValidator } from '../../internal/attestation/machinekey/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { attestationSettings, parseProvisioning } from '../../internal/config/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { createTcpPair } from '../../internal/testing/index.ts';
import { forgeEvidence } from '../../internal/testing/tpm/tpm-evidence.ts';
import { createJoinUpgrades, createShareUpgrades } from './cluster-evidence.ts';

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
const processor = (variant: 'sev-snp' | 'tdx' = 'sev-snp'): Issuer => ({
  variant,
  issue: () => Promise.resolve(new Uint8Array(100)),
});

/** The reason why this machine refuses the join service. */
async function refusedAs(
  upgrades: ReturnType<typeof createJoinUpgrades>,
  shown = processor(),
): Promise<string | undefined> {
  using tcp = await createTcpPair();
  const server = atlsServerUpgrade({
    trust: {
      trust: 'mutual',
      shows: [shown],
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

describe('a machine that asks for the share of its disk', () => {
  test.each(['sev-snp', 'tdx'] as const)(
    'does not judge the processor of a control plane: %s',
    async (variant) => {
      if (attestation === undefined) throw new TypeError('it was written above');
      const settings = { ...attestationSettings(attestation), variants: [variant] as const };
      const common = { issuers: [newKey()] as const, attestation: settings, clock };
      expect(await refusedAs(createShareUpgrades(common), processor(variant))).toBeUndefined();
      const joining = createJoinUpgrades({ ...common, collateral: () => Promise.resolve({}) });
      expect(await refusedAs(joining, processor(variant))).toBe('attestation-policy-missing');
    },
  );

  /** A join service with a TPM whose evidence is for this binding. */
  const updated = (bindingOf: (session: Uint8Array) => Uint8Array): Issuer => ({
    variant: 'tpm',
    issue: (binding) => {
      const pcrValues = new Map([4, 7].map((pcr) => [pcr, new Uint8Array(32).fill(9)]));
      return Promise.resolve(forgeEvidence({ binding: bindingOf(binding), pcrValues }));
    },
  });

  test('accepts updated software of a control plane, in evidence of this session only', async () => {
    if (attestation === undefined) throw new TypeError('it was written above');
    const policyInput = {
      ...{ name: 'measured', profile: 'measured', machines: 'any-proved' },
      registers: { pcr4: { expected: 'ab'.repeat(32) } },
      tpm: { attestationKeys: 'enrolled', requiredPcrs: [4, 7], eventLog: 'optional' },
    };
    const settings = { ...attestationSettings(attestation), variants: ['tpm'] as const, policyInput };
    const common = { issuers: [newKey()] as const, attestation: settings, clock };
    const sharing = createShareUpgrades(common);
    const ofSession = updated((binding) => binding);
    expect(await refusedAs(sharing, ofSession)).toBeUndefined();
    expect(
      await refusedAs(
        sharing,
        updated((binding) => binding.toReversed()),
      ),
    ).toBe('quote-binding');
    const joining = createJoinUpgrades({ ...common, collateral: () => Promise.resolve({}) });
    expect(await refusedAs(joining, ofSession)).toBe('attestation-register-mismatch');
  });
});
