import { AttestationError, MAX_EVIDENCE_BYTES } from '../../internal/attestation/index.ts';
import { claimedIdentity, MAX_ENROLMENT_BYTES } from '../../internal/attestation/enrolment/index.ts';
import {
  diskShareAnswer,
  encodeDiskShareStatement,
  statementId,
  type DiskShareEnvelope,
} from '../../internal/crypto/index.ts';
import { nodeIdOf } from '../../internal/pki/index.ts';
import type { NodeRecord } from '../../internal/records/index.ts';
import { memberOfIdentity, type ActiveAttestation } from '../evidence/index.ts';
import type { GiveDiskShareRequest } from '../signerproto/gen/signer_pb.js';
import { SignerError } from './errors.ts';
import type { StatementEvidence } from './evidence-verifier.ts';
import type { SignerReads } from './member-signer.ts';
import { envelopeForTpm } from './seal-for-tpm.ts';
import { checkAge, refuseOlderStatement } from './verify-statement.ts';

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const MAX_EVIDENCE = 4;

/** The request of a machine for the cluster share of its state disk. All of it is untrusted until it is verified. */
export type DiskShareRequest = Omit<GiveDiskShareRequest, '$typeName' | 'timeMs' | 'evidence'> & {
  readonly timeMs: number;
  readonly evidence: readonly StatementEvidence[];
};

/** The share, encrypted for the TPM of the machine, and the signature of the cluster CA over the answer. */
export type DiskShareAnswer = DiskShareEnvelope & { readonly signature: Uint8Array };

/** An answer, and the member that it is for. */
export interface GivenDiskShare {
  readonly answer: DiskShareAnswer;
  readonly nodeId: string;
  readonly identity: string;
}

/**
 * Gives a member the cluster share of its state disk (docs/decisions/state-disk.md). Records can only restrict this: whatever they say, a
 * share is derived for one TPM and one disk, and encrypted for that TPM, on which accepted software has just made the evidence.
 */
export class DiskShareGiver {
  readonly #reads: SignerReads;

  constructor(reads: SignerReads) {
    this.#reads = reads;
  }

  /** Verifies a request and derives the share. @throws SignerError, OwnerDocumentError */
  async give(request: DiskShareRequest, signal: AbortSignal): Promise<GivenDiskShare> {
    const { cluster, clock, keys, evidence, memory } = this.#reads;
    const statement = statementOf(request, cluster.clusterId);
    const asked = { id: statementId(statement), timeMs: request.timeMs };
    const identity = identityIn(request.enrolment);
    checkAge(asked, { of: identity, nowMs: clock.nowMs() });
    const node = await this.#member(identity, signal);
    const attestation = await this.#signedAttestation(identity, signal);
    requireListed(identity, attestation);
    const made = { statement, evidence: request.evidence };
    const shows = await evidence.verifyForDisk(node, { ...made, attestation }, signal);
    // By attestation key as well: a machine that claims the TPM of another one must not make that one's statements look old.
    const akName = shows.akName ?? '';
    refuseOlderStatement(asked, { of: identity, newest: memory.disks.get(identity, akName) });
    const share = await keys.diskShare({ identity, uuid: request.uuid });
    const box = envelopeForTpm(share, shows, request);
    const envelope = {
      challenge: bytesOf(box.challenge),
      nonce: bytesOf(box.nonce),
      ciphertext: bytesOf(box.ciphertext),
    };
    const signature = await keys.signAsClusterCa(diskShareAnswer(statement, envelope));
    memory.disks.keep(identity, akName, asked);
    return { answer: { ...envelope, signature }, nodeId: node.nodeId, identity };
  }

  /** The member whose machine has this TPM. @throws SignerError `signer-share-not-member` */
  async #member(identity: string, signal: AbortSignal): Promise<NodeRecord> {
    const node = await memberOfIdentity(this.#reads.etcd, identity, signal);
    if (node === undefined || nodeIdOf(Buffer.from(node.pubKey, 'base64')) !== node.nodeId)
      throw new SignerError(
        'signer-share-not-member',
        `giving the disk share of ${identity}: it is not the machine of a member`,
      );
    return node;
  }

  /**
   * Workers get certificates under a configuration that no owner has signed; no disk opens under it. A signature from before a recovery of
   * the quorum counts, so that a cold start needs no owner. The rules are those of the bytes that were compared: the record may change
   * meanwhile.
   */
  async #signedAttestation(identity: string, signal: AbortSignal): Promise<ActiveAttestation> {
    const { configuration, documents } = this.#reads;
    const { sha256, attestation } = await configuration.now(signal);
    const signed = await documents.configurationSha256({ isRunning: true, signal });
    if (signed === sha256) return attestation();
    throw new SignerError(
      'signer-policy-unsigned',
      `giving the disk share of ${identity}: configuration ${sha256} is not signed, signed is ${signed ?? 'none'}`,
    );
  }
}

/** @throws SignerError `signer-share-unlisted` */
function requireListed(identity: string, { machines }: ActiveAttestation): void {
  if (machines === 'any' || machines.has(identity)) return;
  throw new SignerError(
    'signer-share-unlisted',
    `giving the disk share of ${identity}: attestation.policy.machines does not list it`,
  );
}

function statementOf(request: DiskShareRequest, clusterId: string): Uint8Array {
  const { uuid, enrolment, session, timeMs, evidence } = request;
  const isSized =
    UUID.test(uuid) &&
    enrolment.length <= MAX_ENROLMENT_BYTES &&
    evidence.length <= MAX_EVIDENCE &&
    evidence.every(({ document }) => document.length <= MAX_EVIDENCE_BYTES);
  if (!isSized) throw invalid('a part of the statement is malformed or too long');
  try {
    return encodeDiskShareStatement({ clusterId, uuid, enrolment, session, timeMs });
  } catch (cause) {
    throw invalid('malformed statement', cause);
  }
}

/** The identity that the request claims. Only the encryption for this TPM proves it. */
function identityIn(enrolment: Uint8Array): string {
  try {
    return claimedIdentity(enrolment);
  } catch (cause) {
    if (!(cause instanceof AttestationError)) throw cause;
    throw invalid('malformed enrolment', cause);
  }
}

function bytesOf(base64: string): Uint8Array {
  return new Uint8Array(Buffer.from(base64, 'base64'));
}

function invalid(what: string, cause?: unknown): SignerError {
  return new SignerError('signer-request-invalid', `invalid request for a disk share: ${what}`, { cause });
}
