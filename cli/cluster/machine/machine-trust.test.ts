import { describe, expect, test } from '@jest/globals';
import { lockedValue } from '../../../internal/attestation/index.ts';
import {
  attestationTemplate,
  attestationSettings,
  parseClusterConfig,
  renderClusterConfig,
} from '../../../internal/config/index.ts';
import { MachineTrust, type MachineTrustOptions } from './machine-trust.ts';

const clusterId = 'a1'.repeat(16);
const zero = '00'.repeat(32);
const locked = Buffer.from(lockedValue(new Uint8Array(32), clusterId)).toString('hex');
const fingerprint = `sha256:${'ab'.repeat(32)}`;
const known = {
  variant: 'tpm',
  identity: 'tpm-ek:ee',
  attestationKey: '000bcc',
  endorsementKey: 'ee',
} as const;

/** The trust of a workspace whose configuration `config generate --attestation tpm,machine-key` wrote. */
function trustOf(options: Partial<MachineTrustOptions> = {}): MachineTrust {
  const { attestation } = parseClusterConfig(
    renderClusterConfig({ name: 'prod', attestation: attestationTemplate(['tpm', 'machine-key']) }),
    'cluster.yaml',
  );
  return new MachineTrust({
    settings: attestationSettings(attestation),
    collateral: {},
    fingerprint,
    known: undefined,
    lock: { shows: 'boot-baseline' },
    ...options,
  });
}

const variantsOf = (trust: MachineTrust): readonly string[] => trust.accepts.map(({ variant }) => variant);

describe('MachineTrust', () => {
  test('accepts any attestation key at first contact, because the machine is verified afterwards', () => {
    const { policy, collateral } = trustOf().rules();
    expect(policy).toMatchObject({ machines: 'any', tpm: { attestationKeys: 'enrolling' } });
    expect(collateral.tpm?.attestationKeys.size).toBe(0);
  });

  test('requires after the first contact the known key, a machine that the policy allows, and the node lock', () => {
    const trust = trustOf();
    trust.pinMachine({ attestationKey: '000bcc', endorsementKey: 'ee' });
    const { policy, collateral } = trust.rules();
    expect(policy).toMatchObject({ machines: 'any-proved', tpm: { attestationKeys: 'enrolled' } });
    expect([...(collateral.tpm?.attestationKeys ?? [])]).toEqual([['000bcc', { endorsementKeyId: 'ee' }]]);
    expect(policy.registers.get('pcr15')?.accepted).toEqual([zero]);
    trust.expectLock({ shows: 'either', clusterId });
    expect(trust.rules().policy.registers.get('pcr15')?.accepted).toEqual([zero, locked]);
    trust.expectLock({ shows: 'locked', clusterId });
    expect(trust.rules().policy.registers.get('pcr15')?.accepted).toEqual([locked]);
  });

  test('refuses a known machine that no longer presents its TPM', () => {
    expect(variantsOf(trustOf())).toEqual(['tpm', 'machine-key']);
    expect(variantsOf(trustOf({ known }))).toEqual(['tpm']);
    expect(trustOf({ known }).isFirstContact).toBe(false);
  });

  test('refuses the variant machine-key without a fingerprint, and an empty list of variants', () => {
    expect(variantsOf(trustOf({ fingerprint: undefined }))).toEqual(['tpm']);
    const changed = trustOf({ known: { ...known, variant: 'tdx' } });
    expect(() => changed.accepts).toThrow(expect.objectContaining({ code: 'cluster-evidence-unknown' }));
  });
});
