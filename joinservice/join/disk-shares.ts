import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AttestedPeer } from '../../internal/atls/index.ts';
import { MAX_EVIDENCE_BYTES } from '../../internal/attestation/index.ts';
import { claimedIdentity, MAX_ENROLMENT_BYTES } from '../../internal/attestation/enrolment/index.ts';
import type { AuditLog } from '../../internal/auditlog/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { NodeRecord } from '../../internal/records/index.ts';
import { sourcePathOf, type Call } from '../../internal/rpc/index.ts';
import { memberOfIdentity } from '../evidence/index.ts';
import type { DiskShareSchema, IssueDiskShareRequest } from '../joinproto/gen/join_pb.js';
import type { SignerClient } from '../signerlink/index.ts';
import { JoinError } from './errors.ts';
import { ShareBudget } from './requests/share-budget.ts';

const UUID_CHARS = 36;
/** As many as for a ticket: a machine shows evidence of its TPM, and of its key. */
const MAX_EVIDENCE = 2;

/** Dependencies of `DiskShares`. */
export interface DiskSharePorts {
  readonly etcd: KeySpace;
  readonly signer: Pick<SignerClient, 'giveDiskShare'>;
  /** Throws unless the evidence of the session was verified with the current policy. */
  readonly checkPolicy: (peer: AttestedPeer) => void;
  /** Throws unless the current policy lets this machine be a member. */
  readonly checkAllowed: (identity: string) => void;
  readonly clock: Pick<Clock, 'monotonicMs' | 'nowMs'>;
  /** The log of requests, because anybody can claim the TPM of a member. */
  readonly requests: Pick<AuditLog, 'commit'>;
  /** The control plane of this process. */
  readonly own: { readonly nodeId: string };
  readonly log: Logger;
}

/**
 * Passes requests of machines for the share of their state disk to the signer, which verifies them and encrypts the answer for the TPM of the
 * machine. This process can neither read nor replace the share. Its checks keep from the signer what would be refused anyway, and
 * floods; it adds the session.
 */
export class DiskShares {
  readonly #ports: DiskSharePorts;
  readonly #budget: ShareBudget;

  constructor(ports: DiskSharePorts) {
    this.#ports = ports;
    this.#budget = new ShareBudget(ports.clock);
  }

  /** @throws JoinError; RemoteError `signer-…` */
  async issue(
    request: IssueDiskShareRequest,
    call: Call<AttestedPeer>,
  ): Promise<MessageInitShape<typeof DiskShareSchema>> {
    const { uuid, enrolment, timeMs } = request;
    checkSizes(request);
    const { peer, signal } = call;
    this.#ports.checkPolicy(peer);
    const identity = claimedIdentity(enrolment);
    this.#ports.checkAllowed(identity);
    const { nodeId } = await this.#member(identity, signal);
    const from = sourceOf(call);
    this.#takeBudget(identity, from);
    const evidence = request.evidence.map(({ variant, document }) => ({ variant, document }));
    const asked = { uuid, enrolment, timeMs, session: peer.session, evidence };
    const { challenge, nonce, ciphertext, signature } = await this.#ports.signer.giveDiskShare(asked, signal);
    await this.#audit(nodeId, { identity, uuid, source: from }, signal);
    return { challenge, nonce, ciphertext, signature };
  }

  /** The member whose machine has this TPM. The claim proves nothing: the signer encrypts its answer for the TPM. */
  async #member(identity: string, signal: AbortSignal): Promise<NodeRecord> {
    const node = await memberOfIdentity(this.#ports.etcd, identity, signal);
    if (node !== undefined) return node;
    throw new JoinError(
      'join-share-not-member',
      `giving the disk share of ${identity}: it is not the machine of a member`,
    );
  }

  #takeBudget(identity: string, from: string): void {
    if (this.#budget.tryTake(identity, from)) return;
    throw new JoinError('join-share-too-often', `giving the disk share of ${identity}: asked from ${from}`);
  }

  /** A share is given even if that cannot be written: a full etcd must not keep the disks of a cluster closed. Then the logs have it. */
  async #audit(
    subject: string,
    given: { readonly identity: string; readonly uuid: string; readonly source: string },
    signal: AbortSignal,
  ): Promise<void> {
    const { requests, clock, own, log } = this.#ports;
    log.info('share of a state disk passed on', { node: subject, ...given });
    const facts = {
      ...{ timeMs: clock.nowMs(), caller: `joinservice:${own.nodeId}`, method: 'IssueDiskShare', subject },
      detail: { verdict: 'given', ...given },
    };
    await requests.commit({ when: [], then: [], facts }, signal).catch((error: unknown) => {
      log.error('writing a given disk share to the audit log failed', { node: subject, ...given, error });
    });
  }
}

/** The smallest network of the machine, with that of the relay that has announced it. */
function sourceOf({ address = '', source = sourcePathOf(address) }: Call<AttestedPeer>): string {
  return source.at(-1) ?? '';
}

/** @throws JoinError `join-keys-invalid` */
function checkSizes({ uuid, enrolment, evidence }: IssueDiskShareRequest): void {
  const isSized =
    uuid.length === UUID_CHARS &&
    enrolment.length <= MAX_ENROLMENT_BYTES &&
    evidence.length > 0 &&
    evidence.length <= MAX_EVIDENCE &&
    evidence.every(({ document }) => document.length <= MAX_EVIDENCE_BYTES);
  if (!isSized)
    throw new JoinError('join-keys-invalid', 'reading a request for a disk share: missing or too large');
}
