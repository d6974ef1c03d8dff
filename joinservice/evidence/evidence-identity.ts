import { machineIdentityText, type Verdict } from '../../internal/attestation/index.ts';
import { lockCounterOf } from '../../internal/attestation/tpm/index.ts';
import type { MachineRecord } from '../../internal/records/index.ts';

/** Which machine evidence is of, and how often it was locked. */
export interface EvidenceIdentity {
  /** undefined for evidence without a TPM. */
  readonly akName: string | undefined;
  readonly identity: string;
  readonly variant: string;
  /** undefined where nothing counts. */
  readonly lockCounter?: bigint | undefined;
}

/**
 * Whether evidence is of the machine on record. An attestation key that a processor vouched for may be anybody's without
 * it: the same key under a weaker kind of evidence is not the same machine.
 */
export function isSameMachine(
  known: Pick<MachineRecord, 'akName' | 'identity' | 'variant'>,
  { akName, identity, variant }: Pick<EvidenceIdentity, 'akName' | 'identity' | 'variant'>,
): boolean {
  if (known.variant !== variant) return false;
  return known.akName === undefined ? known.identity === identity : known.akName === akName;
}

/** Which machine the evidence of a session, or of a statement, is of. */
export function evidenceIdentityOf(
  judged: Pick<Verdict, 'claims' | 'variant' | 'machineIdentity'>,
): EvidenceIdentity {
  return {
    akName: attestationKeyNameOf(judged),
    variant: judged.variant,
    identity: machineIdentityText(judged.machineIdentity),
    lockCounter: lockCounterOf(judged),
  };
}

/** The Name of the attestation key that signed; undefined for evidence without a TPM. */
export function attestationKeyNameOf({ claims }: Pick<Verdict, 'claims'>): string | undefined {
  const name = claims['attestationKey'] ?? claims['tpm.attestationKey'];
  return typeof name === 'string' ? name : undefined;
}
