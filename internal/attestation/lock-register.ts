import { createHash } from 'node:crypto';
import type { Policy } from './rules.ts';

/**
 * The node lock as a verifier sees it: one PCR that the boot chain leaves alone, which the agent extends with the id of
 * the cluster that the machine is bound to. PCR 15 is for the system's identity and systemd uses it only where it boots
 * unified kernel images (systemd-pcrmachine.service(8)); another one can be configured.
 */
export const DEFAULT_LOCK_PCR = 15;

const LABEL = Buffer.from('cluster node lock v1\0', 'ascii');
const ZERO = '00'.repeat(32);

/** What the machine extends its lock register with. `clusterId`: 16 bytes in lower-case hex. */
export function lockDigest(clusterId: string): Uint8Array {
  return createHash('sha256').update(LABEL).update(clusterId, 'ascii').digest();
}

/** The register after one extension of `baseline` (32 bytes, SHA-256 bank). A second one would give a third value. */
export function lockedValue(baseline: Uint8Array, clusterId: string): Uint8Array {
  return createHash('sha256').update(baseline).update(lockDigest(clusterId)).digest();
}

/**
 * What the lock register must show, call by call:
 *
 *     boot-baseline   first init, first ticket: bound to nobody since it was switched on
 *     locked          re-attach, ticket retry, rejoin, renewal, verify: bound to this cluster
 *     either          an init that was sent and whose lock nobody has seen yet
 */
export type LockExpectation =
  { readonly shows: 'boot-baseline' } | { readonly shows: 'locked' | 'either'; readonly clusterId: string };

/**
 * The policy with the lock register in it. Its boot baseline is zero unless the policy has reference values for that very
 * register. Without a TPM in the policy there is no such register, and the verdict says nothing about the lock.
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
