import { describe, expect, test } from '@jest/globals';
import { createHash } from 'node:crypto';
import { lockDigest, lockedValue, withLockRegister } from './lock-register.ts';
import { parsePolicy } from './policy/index.ts';

const clusterId = 'a1'.repeat(16);
const zero = '00'.repeat(32);
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const locked = (baseline: string, id = clusterId): string =>
  hexOf(lockedValue(Buffer.from(baseline, 'hex'), id));
const written = { name: 'p', profile: 'identity', machines: 'any-proved' } as const;
const policy = parsePolicy({ ...written, tpm: { requiredPcrs: [0] } });

test('lockedValue() extends the baseline once with a digest of the cluster id', () => {
  const digest = createHash('sha256').update(`cluster node lock v1\0${clusterId}`).digest();
  expect(hexOf(lockDigest(clusterId))).toBe(digest.toString('hex'));
  const once = createHash('sha256').update(Buffer.alloc(32)).update(digest).digest();
  expect(locked(zero)).toBe(once.toString('hex'));
  expect(locked(zero, 'b2'.repeat(16))).not.toBe(locked(zero));
});

describe('withLockRegister()', () => {
  test.each([
    { name: 'boot-baseline', expected: { shows: 'boot-baseline' } as const, accepted: [zero] },
    { name: 'locked', expected: { shows: 'locked', clusterId } as const, accepted: [locked(zero)] },
    { name: 'either', expected: { shows: 'either', clusterId } as const, accepted: [zero, locked(zero)] },
  ])(
    'accepts the register values that the expectation "$name" allows, and requires the register in the quote',
    ({ expected, accepted }) => {
      const { registers, tpm } = withLockRegister(policy, 15, expected);
      expect(registers.get('pcr15')).toEqual({ accepted, warnOnly: false });
      expect(tpm?.requiredPcrs).toEqual([0, 15]);
    },
  );

  test('computes locked values from all reference values of the register, and enforces a register that was `warnOnly`', () => {
    const baselines = ['c3'.repeat(32), 'd4'.repeat(32)];
    const registers = { pcr14: { expected: baselines, warnOnly: true } };
    const used = parsePolicy({ ...written, registers, tpm: { requiredPcrs: [14] } });
    expect(withLockRegister(used, 14, { shows: 'locked', clusterId }).registers.get('pcr14')).toEqual({
      accepted: baselines.map((each) => locked(each)),
      warnOnly: false,
    });
  });

  test('leaves a policy without a TPM section unchanged', () => {
    const keysOnly = parsePolicy(written);
    expect(withLockRegister(keysOnly, 15, { shows: 'boot-baseline' })).toBe(keysOnly);
  });
});
