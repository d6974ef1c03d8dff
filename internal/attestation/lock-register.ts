import { createHash } from 'node:crypto';
import type { Policy } from './rules.ts';

/**
 * The PCR of the node lock: the agent extends it with the id of the cluster that the machine is bound to. The boot
 * chain does not use it. PCR 15 is meant for the identity of the system, and systemd uses it only when it boots unified
 * kernel images (systemd-pcrmachine.service(8)). Another PCR can be configured.
 */
export const DEFAULT_LOCK_PCR = 15;

const LABEL = Buffer.from('cluster node lock v1\0', 'ascii');
const ZERO = '00'.repeat(32);

/** The digest with which a machine extends its lock register. `clusterId`: 16 bytes in lower-case hex. */
export function lockDigest(clusterId: string): Uint8Array {
  return createHash('sha256').update(LABEL).update(clusterId, 'ascii').digest();
}

/** The value of the register after extending `baseline` once (32 bytes, SHA-256 bank). */
export function lockedValue(baseline: Uint8Array, clusterId: string): Uint8Array {
  return createHash('sha256').update(baseline).update(lockDigest(clusterId)).digest();
}

/**
 * The value that the lock register must have:
 *
 *     boot-baseline   first init or first join ticket: since its start, the machine was bound to no cluster
 *     locked          every later contact (reconnect to an init, repeated ticket, rejoin, renewal, verify): bound to this cluster
 *     either          an init request was sent, and nobody knows yet whether the machine has locked itself
 */
export type LockExpectation =
  { readonly shows: 'boot-baseline' } | { readonly shows: 'locked' | 'either'; readonly clusterId: string };

/**
 * Adds the expected value of the lock register to a policy. The value before the lock (boot baseline) is zero unless
 * the policy has reference values for that register. Without a `tpm` section the policy is unchanged, and the verdict
 * does not cover the lock.
 */
export function withLockRegister(policy: Policy, pcr: number, expected: LockExpectation): Policy {
  if (policy.tpm === undefined) return policy;
  const register = `pcr${pcr}`;
  const baselines = policy.registers.get(register)?.accepted ?? [ZERO];
  const { requiredPcrs } = policy.tpm;
  const rule = { accepted: acceptedValues(baselines, expected), warnOnly: false };
  return {
    ...policy,
    registers: new Map([...policy.registers, [register, rule]]),
    tpm: { ...policy.tpm, requiredPcrs: [...new Set([...requiredPcrs, pcr])] },
  };
}

function acceptedValues(baselines: readonly string[], expected: LockExpectation): readonly string[] {
  if (expected.shows === 'boot-baseline') return baselines;
  const locked = baselines.map((hex) =>
    Buffer.from(lockedValue(Buffer.from(hex, 'hex'), expected.clusterId)).toString('hex'),
  );
  return expected.shows === 'locked' ? locked : [...baselines, ...locked];
}
