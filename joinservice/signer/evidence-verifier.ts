import {
  AttestationError,
  withLockRegister,
  type Collateral,
  type Policy,
  type Validator,
  type Variant,
} from '../../internal/attestation/index.ts';
import { ticketEvidenceBinding } from '../../internal/crypto/index.ts';
import type { MachineRecord, NodeRecord } from '../../internal/records/index.ts';
import {
  evidenceIdentityOf,
  isSameMachine,
  joinValidators,
  type ActiveAttestation,
  type EvidenceIdentity,
} from '../evidence/index.ts';
import { SignerError } from './errors.ts';

const TPM_EK = 'tpm-ek:';
const MAX_EVIDENCE = 4;

/** Of one kind, bound to a statement; the join service's word until it has been judged. */
export interface StatementEvidence {
  readonly variant: string;
  readonly document: Uint8Array;
}

export interface EvidenceVerifierPorts {
  readonly attestation: (signal: AbortSignal) => Promise<ActiveAttestation>;
  /** What manufacturers say, as operators have handed it on; each validator verifies it. */
  readonly collateral: (signal: AbortSignal) => Promise<Pick<Collateral, 'snp' | 'tdx'>>;
  readonly clusterId: string;
  readonly nowMs: () => number;
}

/**
 * Judges the evidence that a machine's agent binds to its statement, with the validators of the join service. That judges
 * sessions, which end at it; this judges what the signer is about to act on.
 */
export class EvidenceVerifier {
  readonly #ports: EvidenceVerifierPorts;
  readonly #validators = new Map<Variant, Validator>();

  constructor(ports: EvidenceVerifierPorts) {
    this.#ports = ports;
  }

  /**
   * That the machine on record made the statement, and that it is bound to this cluster.
   * @throws SignerError `signer-evidence-missing`, `signer-evidence-refused`, `signer-machine-other`
   */
  async verify(
    { nodeId, admission }: NodeRecord,
    made: { readonly statement: Uint8Array; readonly evidence: readonly StatementEvidence[] },
    signal: AbortSignal,
  ): Promise<EvidenceIdentity & { readonly machine: MachineRecord }> {
    if (admission === undefined)
      throw new SignerError('signer-machine-other', `signing for ${nodeId}: no machine is on record for it`);
    const shown = made.evidence.slice(0, MAX_EVIDENCE).find(({ variant }) => variant === admission.variant);
    if (shown === undefined)
      throw new SignerError(
        'signer-evidence-missing',
        `signing for ${nodeId}: no evidence of kind ${admission.variant} with its statement`,
      );
    const shows = await this.#validate(shown, { nodeId, admission, statement: made.statement, signal });
    if (!isSameMachine(admission, shows))
      throw new SignerError(
        'signer-machine-other',
        `signing for ${nodeId}: evidence of ${shows.identity}, on record is ${admission.identity}`,
      );
    const counted = shows.lockCounter?.toString();
    if (admission.lockCounter !== undefined && admission.lockCounter !== counted)
      throw new SignerError(
        'signer-machine-other',
        `signing for ${nodeId}: lock counter ${counted ?? 'none'}, on record is ${admission.lockCounter}`,
      );
    return { ...shows, machine: admission };
  }

  async #validate(
    { document }: StatementEvidence,
    by: {
      readonly nodeId: string;
      readonly admission: MachineRecord;
      readonly statement: Uint8Array;
      readonly signal: AbortSignal;
    },
  ): Promise<EvidenceIdentity> {
    const { nodeId, admission, statement, signal } = by;
    const { collateral, clusterId, nowMs, attestation } = this.#ports;
    const { policy, lockPcr, variants } = await attestation(signal);
    const validator = this.#validatorFor(variants, admission.variant);
    if (validator === undefined)
      throw new SignerError(
        'signer-evidence-refused',
        `signing for ${nodeId}: the configuration accepts no evidence of kind ${admission.variant}`,
      );
    const context = {
      nowMs: nowMs(),
      policy: withLockRegister(boundTo(admission, policy), lockPcr, { shows: 'locked', clusterId }),
      collateral: {
        ...(isOfProcessor(admission) ? await collateral(signal) : {}),
        tpm: { attestationKeys: keysOf(admission) },
      },
    };
    try {
      return evidenceIdentityOf(
        await validator.validate(document, ticketEvidenceBinding(statement), context),
      );
    } catch (cause) {
      if (!(cause instanceof AttestationError)) throw cause;
      throw new SignerError('signer-evidence-refused', `judging the evidence of ${nodeId}`, { cause });
    }
  }

  #validatorFor(variants: ActiveAttestation['variants'], wanted: string): Validator | undefined {
    const variant = variants.find((each) => each === wanted);
    if (variant === undefined) return undefined;
    const known = this.#validators.get(variant);
    if (known !== undefined) return known;
    const [made] = joinValidators([variant]);
    this.#validators.set(variant, made);
    return made;
  }
}

/** The attestation key on record and no other one; a processor vouches for the key of its own virtual TPM. */
function boundTo({ akName, variant }: MachineRecord, policy: Policy): Policy {
  const isTpmAlone = akName !== undefined && variant === 'tpm';
  return policy.tpm === undefined || !isTpmAlone
    ? policy
    : { ...policy, tpm: { ...policy.tpm, attestationKeys: 'enrolled' } };
}

/** Only what a processor says needs its manufacturer's documents. */
function isOfProcessor({ variant }: MachineRecord): boolean {
  return variant.includes('snp') || variant.includes('tdx');
}

function keysOf({
  akName,
  identity,
}: MachineRecord): ReadonlyMap<string, { readonly endorsementKeyId: string }> {
  if (akName === undefined || !identity.startsWith(TPM_EK)) return new Map();
  return new Map([[akName, { endorsementKeyId: identity.slice(TPM_EK.length) }]]);
}
