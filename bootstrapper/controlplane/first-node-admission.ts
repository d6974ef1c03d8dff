import { createHash } from 'node:crypto';
import { encodeEnrolmentRequest, endorsementKeyIdOf } from '../../internal/attestation/enrolment/index.ts';
import type { NodeRecord } from '../../internal/records/index.ts';
import { nameOf, parsePublic } from '../../internal/tpm/index.ts';
import type { MachineEvidence } from '../attest/index.ts';

/**
 * The admission in the record of the first node, whose evidence the owner has verified before the init. With
 * this admission the node renews its certificates like every other node. undefined when only a confidential
 * processor identifies the machine, because only a verifier can read that identity from the evidence.
 */
export async function firstNodeAdmission(
  evidence: Pick<MachineEvidence, 'variant' | 'readEnrolment' | 'readLockCounter'>,
  machine: { readonly fingerprint: string },
  at: { readonly nowMs: number; readonly signal: AbortSignal },
): Promise<NodeRecord['admission']> {
  const { variant } = evidence;
  const base = {
    proof: 'pinned',
    profile: 'identity',
    policyVersion: 'init',
    decidedBy: 'init',
    timeMs: at.nowMs,
  } as const;
  if (variant === 'machine-key') {
    const id = machine.fingerprint.replace('sha256:', '');
    return { ...base, variant, identity: `machine-key:${id}`, evidenceDigest: id };
  }
  const request = variant === 'tpm' ? await evidence.readEnrolment(at.signal) : undefined;
  if (request === undefined) return undefined;
  const lockCounter = await evidence.readLockCounter(at.signal);
  const akName = nameOf(parsePublic(request.attestationKey));
  return {
    ...base,
    variant,
    identity: `tpm-ek:${endorsementKeyIdOf(request.endorsementKey)}`,
    akName: Buffer.from(akName).toString('hex'),
    ...(lockCounter === undefined ? {} : { lockCounter: lockCounter.toString() }),
    evidenceDigest: createHash('sha256').update(encodeEnrolmentRequest(request)).digest('hex'),
  };
}
