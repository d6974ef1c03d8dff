import { CC } from '../command.ts';
import { digestOf } from '../algorithms.ts';
import { malformed } from '../errors.ts';
import { WireWriter } from '../wire.ts';
import { nvNameOf, type NvPublic } from './nv-public.ts';
import { encodePcrSelection } from './pcr-selection.ts';

/** The policy digest of a new SHA-256 session. */
const START = new Uint8Array(32);
/** TPM_EO_UNSIGNED_LE (Part 2, 6.8): the value of the index is less than or equal to the operand. */
const UNSIGNED_LE = 0x0009;

/**
 * Computes, without a TPM, the policy digest that TPM2_PolicyPCR gives to a SHA-256 session (Part 3, 23.7).
 * @param digest `pcrDigest()` of the values
 * @param before the policy digest of the session before the command
 */
export function pcrPolicyDigest(
  pcrs: readonly number[],
  digest: Uint8Array,
  before: Uint8Array = START,
): Uint8Array {
  if (pcrs.length === 0) throw malformed('a PCR policy: it selects no PCR');
  return extended(before, CC.policyPcr, encodePcrSelection({ hash: 'sha256', pcrs }), digest);
}

/** The condition that a counter has at most this value: the parameters of TPM2_PolicyNV. */
export function counterCondition(limit: bigint): {
  readonly operand: Uint8Array;
  readonly offset: number;
  readonly operation: number;
} {
  return { operand: new WireWriter().u64(limit).finish(), offset: 0, operation: UNSIGNED_LE };
}

/**
 * The policy digest after TPM2_PolicyNV with `counterCondition()` (Part 3, 23.9).
 * @param before the policy digest of the session before the command
 */
export function counterPolicyDigest(
  counter: NvPublic,
  limit: bigint,
  before: Uint8Array = START,
): Uint8Array {
  const { operand, offset, operation } = counterCondition(limit);
  const condition = new WireWriter().bytes(operand).u16(offset).u16(operation).finish();
  return extended(before, CC.policyNv, digestOf('sha256', condition), nvNameOf(counter));
}

/**
 * The policy digest after TPM2_PolicyAuthorize (Part 3, 23.16). It replaces what the session had before.
 * @param keyName Name of the key that signs policies
 */
export function authorizePolicyDigest(keyName: Uint8Array, reference: Uint8Array): Uint8Array {
  return digestOf('sha256', extended(START, CC.policyAuthorize, keyName), reference);
}

/** The policy digest after TPM2_PolicyOR (Part 3, 23.6). It replaces what the session had before. */
export function orPolicyDigest(branches: readonly Uint8Array[]): Uint8Array {
  return extended(START, CC.policyOr, ...branches);
}

function extended(before: Uint8Array, command: number, ...parts: readonly Uint8Array[]): Uint8Array {
  return digestOf('sha256', before, new WireWriter().u32(command).finish(), ...parts);
}
