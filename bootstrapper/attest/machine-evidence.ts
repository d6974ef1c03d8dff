import { createPrivateKey, type KeyObject } from 'node:crypto';
import {
  bindingOfDiskSeal,
  bindingOfVerifyRequest,
  type Issuer,
  type Variant,
  type VerifyRequest,
} from '../../internal/attestation/index.ts';
import {
  answerChallenge,
  readEnrolmentRequest,
  type Challenge,
  type EnrolmentRequest,
} from '../../internal/attestation/enrolment/index.ts';
import { MachineKeyIssuer, proveKey, type KeyProof } from '../../internal/attestation/machinekey/index.ts';
import { createIssuer } from '../../internal/attestation/policy/index.ts';
import { diskShareEvidenceBinding, ticketEvidenceBinding } from '../../internal/crypto/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import type { FilePort, KernelFilePort } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { lockCounter, type Tpm } from '../../internal/tpm/index.ts';
import { TpmEvidence } from './tpm-evidence.ts';

/** Inputs from which the evidence of a machine is created. */
export interface MachineEvidenceOptions {
  readonly provisioning: Pick<Provisioning, 'tpm' | 'processor'>;
  readonly tpm: Tpm | undefined;
  readonly machineKeyPem: Secret<string>;
  readonly files: FilePort;
  readonly kernel: KernelFilePort;
  readonly clock: Clock;
  /** Path of the attestation key's sealed secret. */
  readonly keySecretPath: string;
  /**
   * Extends a PCR of the TPM with the state of the node lock (whether this machine belongs to a cluster
   * already), so that evidence shows it. No evidence is issued before this has succeeded.
   */
  readonly mirrorLock: () => Promise<void>;
}

/** Evidence of one variant, bound to a statement. */
export interface TicketEvidence {
  readonly variant: Variant;
  readonly document: Uint8Array;
}

/** The evidence of this machine (see index.ts). */
export interface MachineEvidence {
  /** The best evidence variant that this machine has. */
  readonly variant: Variant;
  /** Issuers of all evidence variants of this machine, best first. The machine key is always one of them. */
  readonly issuers: readonly [Issuer, ...Issuer[]];
  /**
   * Copies the state of the node lock to the lock register of the TPM, e.g. after a reboot. Issuers wait
   * until this is complete.
   */
  mirrorLock(): Promise<void>;
  /**
   * Proves inside a session that this end has the machine key. `label` identifies the contract, e.g.
   * "cluster/init/key/v1".
   */
  proveKey(label: string, session: Uint8Array): KeyProof;
  /**
   * Reads the EK, its certificate and the AK. Returns undefined unless a TPM alone provides the evidence of
   * this machine.
   */
  readEnrolment(signal: AbortSignal): Promise<EnrolmentRequest | undefined>;
  /** Reads how often this machine was locked. Returns undefined without a TPM. */
  readLockCounter(signal: AbortSignal): Promise<bigint | undefined>;
  /**
   * Answers a credential activation challenge with the TPM. The answer is valid for this session
   * (`peer.session`).
   */
  answerChallenge(challenge: Challenge, session: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
  /**
   * Issues evidence of each variant, bound to the statement of a ticket request (`encodeTicketStatement`).
   */
  forTicket(statement: Uint8Array, signal: AbortSignal): Promise<readonly TicketEvidence[]>;
  /** Evidence of the TPM for the statement with which the machine asks for the share of its state disk (`encodeDiskShareStatement`). */
  forDiskShare(statement: Uint8Array, signal: AbortSignal): Promise<TicketEvidence>;
  /**
   * Issues fresh evidence of the best variant for an operator. `clusterId` and `nodeId` are those of this
   * node, never values from the caller.
   */
  forVerify(request: VerifyRequest, signal: AbortSignal): Promise<Uint8Array>;
  /** Evidence for an owner's request how the state disk is sealed, bound to the answer. */
  forDiskSeal(request: VerifyRequest, seal: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
}

/** Creates the evidence of this machine from its provisioning. */
export function createMachineEvidence(options: MachineEvidenceOptions): MachineEvidence {
  const privKey = new Secret(createPrivateKey(options.machineKeyPem.reveal()));
  const tpm = options.tpm === undefined ? undefined : new TpmEvidence(options, options.tpm);
  const best = locked(bestIssuer(options, { privKey, tpm }), options.mirrorLock);
  const own = locked(new MachineKeyIssuer({ privKey }), options.mirrorLock);
  const machine = best.variant === 'tpm' ? tpm : undefined;
  return {
    variant: best.variant,
    issuers: best.variant === own.variant ? [own] : [best, own],
    mirrorLock: () => options.mirrorLock(),
    proveKey: (label, session) => proveKey(label, session, privKey),
    readEnrolment: async (signal) =>
      machine === undefined ? undefined : readEnrolmentRequest(await machine.options(signal), signal),
    readLockCounter: async (signal) =>
      options.tpm?.use(signal, (connection, task) => lockCounter.read(connection, task)),
    answerChallenge: async (challenge, session, signal) => {
      if (machine === undefined)
        throw new TypeError('this machine has no TPM enrolment and cannot answer a challenge');
      return answerChallenge(await machine.options(signal), challenge, session, signal);
    },
    forTicket: async (statement, signal) => {
      const shown: TicketEvidence[] = [];
      for (const issuer of best.variant === own.variant ? [own] : [best, own]) {
        const document = await issuer.issue(ticketEvidenceBinding(statement), signal);
        shown.push({ variant: issuer.variant, document });
      }
      return shown;
    },
    forDiskShare: async (statement, signal) => ({
      variant: best.variant,
      document: await best.issue(diskShareEvidenceBinding(statement), signal),
    }),
    forVerify: (request, signal) => best.issue(bindingOfVerifyRequest(request), signal),
    forDiskSeal: (request, seal, signal) => best.issue(bindingOfDiskSeal(request, seal), signal),
  };
}

/**
 * Chooses the best issuer by the provisioning: confidential processor with or without TPM, TPM alone, or
 * machine key alone.
 */
function bestIssuer(
  { provisioning, kernel, clock }: MachineEvidenceOptions,
  has: { readonly privKey: Secret<KeyObject>; readonly tpm: TpmEvidence | undefined },
): Issuer {
  const { privKey, tpm } = has;
  const machineKey = (): Issuer => new MachineKeyIssuer({ privKey });
  return createIssuer(variantOf(provisioning.processor, tpm !== undefined), {
    tsm: { files: kernel, clock },
    tpm: () => tpm ?? machineKey(),
    machineKey,
    ownerKey: machineKey,
  });
}

function variantOf(processor: Provisioning['processor'], hasTpm: boolean): Variant {
  switch (processor) {
    case 'none':
      return hasTpm ? 'tpm' : 'machine-key';
    case 'sev-snp':
      return hasTpm ? 'snp+tpm' : 'sev-snp';
    case 'tdx':
      return hasTpm ? 'tdx+tpm' : 'tdx';
  }
}

/**
 * Wraps an issuer so that `mirrorLock` runs first. Otherwise, the evidence of a locked machine could show it
 * as unlocked.
 */
function locked(issuer: Issuer, mirrorLock: () => Promise<void>): Issuer {
  return {
    variant: issuer.variant,
    issue: async (binding, signal) => {
      await mirrorLock();
      signal.throwIfAborted();
      return issuer.issue(binding, signal);
    },
  };
}
