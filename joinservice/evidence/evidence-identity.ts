import { machineIdentityText, type Verdict } from '../../internal/attestation/index.ts';
import { lockCounterOf } from '../../internal/attestation/tpm/index.ts';
import type { MachineRecord } from '../../internal/records/index.ts';

/**
 * The machine that evidence identifies, and how often it was locked to a cluster according to the counter of
 * its TPM.
 */
export interface EvidenceIdentity {
  /** Name of the attestation key, hex; undefined without a TPM. */
  readonly akName: string | undefined;
  readonly identity: string;
  readonly variant: string;
  /** The number of locks; undefined if the TPM has no lock counter. */
  readonly lockCounter?: bigint | undefined;
}

/**
 * Whether evidence is from the recorded machine. The variant must match too: if a processor vouched for an
 * attestation key, the same key without the processor's report proves less.
 */
export function isSameMachine(
  known: Pick<MachineRecord, 'akName' | 'identity' | 'variant'>,
  { akName, identity, variant }: Pick<EvidenceIdentity, 'akName' | 'identity' | 'variant'>,
): boolean {
  if (known.variant !== variant) return false;
  return known.akName === undefined ? known.identity === identity : known.akName === akName;
}

/** Returns the identity of the machine that sent the verified evidence of a session or statement. */
export function evidenceIdentityOf(
  verified: Pick<Verdict, 'claims' | 'variant' | 'machineIdentity'>,
): EvidenceIdentity {
  return {
    akName: attestationKeyNameOf(verified),
    variant: verified.variant,
    identity: machineIdentityText(verified.machineIdentity),
    lockCounter: lockCounterOf(verified),
  };
}

/** The TPM Name, as hex, of the attestation key that signed the evidence; undefined without a TPM. */
export function attestationKeyNameOf({ claims }: Pick<Verdict, 'claims'>): string | undefined {
  const name = claims['attestationKey'] ?? claims['tpm.attestationKey'];
  return typeof name === 'string' ? name : undefined;
}
