import {
  AttestationError,
  type Collateral,
  endorsementKeyIdIn,
  type Policy,
  type Validator,
  type Variant,
  withLockRegister,
} from '../../internal/attestation/index.ts';
import { diskShareEvidenceBinding, ticketEvidenceBinding } from '../../internal/crypto/index.ts';
import type { MachineRecord, NodeRecord } from '../../internal/records/index.ts';
import {
  evidenceIdentityOf,
  isSameMachine,
  joinValidators,
  type ActiveAttestation,
  type EvidenceIdentity,
} from '../evidence/index.ts';
import { SignerError } from './errors.ts';

const MAX_EVIDENCE = 4;

/** Evidence of one variant, bound to a statement. Untrusted until it is verified. */
export interface StatementEvidence {
  readonly variant: string;
  readonly document: Uint8Array;
}

/** Dependencies of the verifier. */
export interface EvidenceVerifierPorts {
  readonly attestation: (signal: AbortSignal) => Promise<ActiveAttestation>;
  /** The uploaded collateral, which each validator verifies. */
  readonly collateral: (signal: AbortSignal) => Promise<Pick<Collateral, 'snp' | 'tdx'>>;
  readonly clusterId: string;
  readonly nowMs: () => number;
}

/**
 * Verifies the evidence that an agent binds to its statement, with the validators of the join service. The join service verifies
 * the evidence of its sessions; the signer does not rely on that.
 */
export class EvidenceVerifier {
  readonly #ports: EvidenceVerifierPorts;
  readonly #validators = new Map<Variant, Validator>();

  constructor(ports: EvidenceVerifierPorts) {
    this.#ports = ports;
  }

  /**
   * Verifies that the recorded machine made the statement, and that this machine is locked to this cluster.
   * @throws SignerError `signer-evidence-missing`, `signer-evidence-refused`, `signer-machine-other`
   */
  async verify(
    { nodeId, admission }: NodeRecord,
    made: { readonly statement: Uint8Array; readonly evidence: readonly StatementEvidence[] },
    signal: AbortSignal,
  ): Promise<EvidenceIdentity & { readonly machine: MachineRecord }> {
    const { shows, machine } = await this.#shown({ nodeId, admission }, made.evidence, {
      binding: ticketEvidenceBinding(made.statement),
      key: 'recorded',
      attestation: await this.#ports.attestation(signal),
      signal,
    });
    if (!isSameMachine(machine, shows))
      throw new SignerError(
        'signer-machine-other',
        `signing for ${nodeId}: the evidence comes from ${shows.identity}, but the recorded machine is ${machine.identity}`,
      );
    checkLockCounter(nodeId, machine, shows);
    return { ...shows, machine };
  }

  /**
   * Verifies evidence with an attestation key that is not on record: the key of a machine whose state disk is closed. The caller encrypts
   * its answer for this key and the recorded TPM, which proves the machine. The lock register may have its value of the boot, because
   * the state of the lock is on the closed disk.
   * @throws SignerError as `verify()`
   */
  async verifyForDisk(
    { nodeId, admission }: NodeRecord,
    made: {
      readonly statement: Uint8Array;
      readonly evidence: readonly StatementEvidence[];
      /** Of the configuration that an owner has signed. */
      readonly attestation: ActiveAttestation;
    },
    signal: AbortSignal,
  ): Promise<EvidenceIdentity & { readonly machine: MachineRecord }> {
    const { shows, machine } = await this.#shown({ nodeId, admission }, made.evidence, {
      binding: diskShareEvidenceBinding(made.statement),
      key: 'any',
      attestation: made.attestation,
      signal,
    });
    checkLockCounter(nodeId, machine, shows);
    return { ...shows, machine };
  }

  async #shown(
    { nodeId, admission }: Pick<NodeRecord, 'nodeId' | 'admission'>,
    evidence: readonly StatementEvidence[],
    expected: Expected,
  ): Promise<{ readonly shows: EvidenceIdentity; readonly machine: MachineRecord }> {
    if (admission === undefined)
      throw new SignerError('signer-machine-other', `signing for ${nodeId}: no machine is recorded for it`);
    const shown = evidence.slice(0, MAX_EVIDENCE).find(({ variant }) => variant === admission.variant);
    if (shown === undefined)
      throw new SignerError(
        'signer-evidence-missing',
        `signing for ${nodeId}: no evidence of variant ${admission.variant} with its statement`,
      );
    const shows = await this.#validate(shown.document, { nodeId, admission }, expected);
    return { shows, machine: admission };
  }

  async #validate(
    document: Uint8Array,
    { nodeId, admission }: { readonly nodeId: string; readonly admission: MachineRecord },
    { binding, key, attestation, signal }: Expected,
  ): Promise<EvidenceIdentity> {
    const { collateral, clusterId, nowMs } = this.#ports;
    const { policy, lockPcr, variants } = attestation;
    const validator = this.#validatorFor(variants, admission.variant);
    if (validator === undefined)
      throw new SignerError(
        'signer-evidence-refused',
        `signing for ${nodeId}: the configuration does not accept the variant ${admission.variant}`,
      );
    const isRecorded = key === 'recorded';
    const context = {
      nowMs: nowMs(),
      policy: withLockRegister(isRecorded ? boundTo(admission, policy) : policy, lockPcr, {
        shows: isRecorded ? 'locked' : 'either',
        clusterId,
      }),
      collateral: {
        ...(isOfProcessor(admission) ? await collateral(signal) : {}),
        tpm: { attestationKeys: isRecorded ? keysOf(admission) : new Map() },
      },
    };
    try {
      return evidenceIdentityOf(await validator.validate(document, binding, context));
    } catch (cause) {
      if (!(cause instanceof AttestationError)) throw cause;
      throw new SignerError('signer-evidence-refused', `verifying the evidence of ${nodeId}`, { cause });
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

/** What evidence must be bound to, and which attestation key may sign it. */
interface Expected {
  readonly binding: Uint8Array;
  readonly key: 'recorded' | 'any';
  readonly attestation: ActiveAttestation;
  readonly signal: AbortSignal;
}

/** A machine that was wiped and locked again since it joined is not the member on record. @throws SignerError `signer-machine-other` */
function checkLockCounter(nodeId: string, machine: MachineRecord, shows: EvidenceIdentity): void {
  const counted = shows.lockCounter?.toString();
  if (machine.lockCounter === undefined || machine.lockCounter === counted) return;
  throw new SignerError(
    'signer-machine-other',
    `signing for ${nodeId}: lock counter ${counted ?? 'none'}, recorded is ${machine.lockCounter}`,
  );
}

/**
 * Only the recorded attestation key may sign. If a virtual TPM belongs to a processor, the processor vouches
 * for its key.
 */
function boundTo({ akName, variant }: MachineRecord, policy: Policy): Policy {
  const isTpmAlone = akName !== undefined && variant === 'tpm';
  return policy.tpm === undefined || !isTpmAlone
    ? policy
    : { ...policy, tpm: { ...policy.tpm, attestationKeys: 'enrolled' } };
}

/** Whether verifying the evidence needs the collateral of a processor manufacturer. */
function isOfProcessor({ variant }: MachineRecord): boolean {
  return variant.includes('snp') || variant.includes('tdx');
}

function keysOf({
  akName,
  identity,
}: MachineRecord): ReadonlyMap<string, { readonly endorsementKeyId: string }> {
  const endorsementKeyId = endorsementKeyIdIn(identity);
  if (akName === undefined || endorsementKeyId === undefined) return new Map();
  return new Map([[akName, { endorsementKeyId }]]);
}
