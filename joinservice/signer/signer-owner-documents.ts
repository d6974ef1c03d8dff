import { ed25519SpkiFromRaw } from '../../internal/crypto/index.ts';
import {
  floorOf,
  OwnerDocumentError,
  parseDocument,
  verifyDocument,
  type DocumentTrust,
  type VerifiedDocument,
} from '../../internal/ownerdocument/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { fingerprintOfKey } from '../../internal/pki/index.ts';
import {
  CLUSTER_KEY,
  documentKey,
  OWNERS_PREFIX,
  records,
  type NodeRecord,
} from '../../internal/records/index.ts';
import { isControlPlane, type OperatorRole } from '../../internal/role/index.ts';
import { documentBytes, ownersFrom } from '../ownerdocs/index.ts';
import { SignerError } from './errors.ts';
import { FLOOR_KINDS, type FloorKind, type KnownControlPlane, type SignerMemory } from './signer-memory.ts';

/** The sources of owner documents and of the first owners, and the limits on the documents that are accepted. */
export interface SignerOwnerDocumentsPorts {
  /**
   * Only the documents are read from etcd. The keys of the first owners come from `ownerKeys`, because etcd is not
   * trusted.
   */
  readonly etcd: KeySpace;
  readonly memory: SignerMemory;
  readonly nowMs: () => number;
  readonly clusterId: string;
  /**
   * The lowest epoch (number of recoveries of the quorum, plus one) whose documents are valid for new control
   * planes.
   */
  readonly epoch: number;
  /** As in `ExpectedDocument`: nobody gets anything new by a document signed before this time. */
  readonly signedAfterMs?: number | undefined;
  /** Raw Ed25519 keys of the first owners, from the configuration of this program, which root writes. */
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
}

/**
 * Owner documents as the signer needs them: each is verified whenever it is used, and a document is refused if the
 * signer has seen a newer one.
 */
export class SignerOwnerDocuments {
  readonly #ports: SignerOwnerDocumentsPorts;

  constructor(ports: SignerOwnerDocumentsPorts) {
    this.#ports = ports;
  }

  /**
   * Finds the grant with which an owner allows this node key, on this machine, to have these control-plane roles. A running
   * control plane may renew its certificates after the grant expired, and after a recovery of the quorum. With a valid certificate it may
   * do so even where only a grant signed after `signedAfterMs` would make a new control plane.
   * @throws SignerError `signer-grant-missing`, `signer-grant-other`; OwnerDocumentError
   */
  async grant(
    node: NodeRecord,
    { wasRunning, isRunning, signal }: GrantUse,
  ): Promise<VerifiedDocument<'grant'>> {
    const { etcd, memory, signedAfterMs } = this.#ports;
    const { nodeId } = node;
    const entry = await etcd.get(documentKey('grant', nodeId), { signal });
    if (entry === undefined)
      throw new SignerError('signer-grant-missing', `signing for ${nodeId} as a control plane: no grant`);
    const bytes = documentBytes(entry);
    const floor = (await memory.controlPlanes()).get(nodeId)?.grant;
    const isKnown = wasRunning || floor?.sha256 === parseDocument(bytes).sha256;
    const trust = await this.#trust(isKnown, signal);
    const grant = verifyDocument(bytes, {
      ...{ ...trust, kind: 'grant', floor, acceptExpired: isKnown },
      signedAfterMs: isRunning ? undefined : signedAfterMs,
    });
    checkGrant(grant, node);
    for (const kind of FLOOR_KINDS)
      if (grant.body.floors[kind] > 0) await memory.raiseFloor(kind, { serial: grant.body.floors[kind] });
    return grant;
  }

  /** For each of these control planes: the withdrawal of its grant by an owner; undefined while none is valid. */
  async withdrawals(
    known: readonly Pick<KnownControlPlane, 'nodeId' | 'grant'>[],
    signal: AbortSignal,
  ): Promise<readonly (VerifiedDocument<'grant'> | undefined)[]> {
    // A withdrawal gives the address of a control plane to others, so an old one must not count.
    const { signedAfterMs } = this.#ports;
    const trust = { ...(await this.#trust(true, signal)), signedAfterMs };
    return Promise.all(
      known.map(async ({ nodeId, grant: floor }) => {
        const entry = await this.#ports.etcd.get(documentKey('grant', nodeId), { signal });
        if (entry === undefined) return undefined;
        try {
          const expected = { ...trust, kind: 'grant', floor, acceptExpired: true } as const;
          const grant = verifyDocument(documentBytes(entry), expected);
          return grant.body.nodeId === nodeId && !isControlPlane(grant.body.roles) ? grant : undefined;
        } catch (error) {
          // An invalid document does not count as a withdrawal.
          if (error instanceof OwnerDocumentError) return undefined;
          throw error;
        }
      }),
    );
  }

  /** The operator with a key; undefined if no owner has signed this operator. */
  async operator(
    pubKeyDer: Uint8Array,
    signal: AbortSignal,
  ): Promise<{ readonly name: string; readonly role: OperatorRole } | undefined> {
    const fingerprint = fingerprintOfKey(pubKeyDer);
    const isOwner = (await this.#trust(true, signal)).owners.some(
      (raw) => fingerprintOfKey(ed25519SpkiFromRaw(raw)) === fingerprint,
    );
    const document = await this.#once('operators', { isRunning: isOwner, signal });
    const listed = document?.body.operators.find((each) => each.fingerprint === fingerprint);
    return listed ?? (isOwner ? { name: 'owner', role: 'owner' } : undefined);
  }

  /** SHA-256 of the configuration that an owner signed, hex; undefined if none did. */
  async configurationSha256(use: DocumentUse): Promise<string | undefined> {
    return (await this.#once('policy', use))?.body.configurationSha256;
  }

  /**
   * The newest document of a kind that has only one document. It stays valid after its end date, because
   * every new certificate needs another valid document as well.
   */
  async #once<K extends FloorKind>(
    kind: K,
    { isRunning, signal }: DocumentUse,
  ): Promise<VerifiedDocument<K> | undefined> {
    const { etcd, memory, signedAfterMs } = this.#ports;
    const entry = await etcd.get(documentKey(kind, ''), { signal });
    if (entry === undefined) return undefined;
    const trust = await this.#trust(true, signal);
    const floor = await memory.floor(kind);
    const document = verifyDocument(documentBytes(entry), {
      ...{ ...trust, kind, floor, acceptExpired: true },
      signedAfterMs: isRunning ? undefined : signedAfterMs,
    });
    await memory.raiseFloor(kind, floorOf(document));
    return document;
  }

  /** @param isRunning documents from before a recovery of the quorum stay valid for control planes that already run */
  async #trust(isRunning: boolean, signal: AbortSignal): Promise<DocumentTrust> {
    const { etcd, memory, nowMs, clusterId, ownerKeys } = this.#ports;
    const trust = { clusterId, epoch: isRunning ? 1 : await this.#epoch(signal), nowMs: nowMs() };
    const seen = await memory.floor('owners');
    const { entries } = await etcd.list(OWNERS_PREFIX, { signal });
    const { keys, floor } = ownersFrom(entries, ownerKeys, { ...trust, seen });
    if (floor !== undefined) await memory.raiseFloor('owners', floor);
    return { ...trust, owners: keys };
  }

  /**
   * The epoch whose documents are valid. etcd, which is not trusted, can only raise this epoch above the configured
   * epoch. A raised epoch makes documents invalid, but never admits a node.
   */
  async #epoch(signal: AbortSignal): Promise<number> {
    const { etcd, epoch } = this.#ports;
    const { record } = await records.cluster.read(etcd, CLUSTER_KEY, signal);
    return Math.max(epoch, record?.epoch ?? 1);
  }
}

/** What a document is needed for. */
interface DocumentUse {
  /** Whether it gives nobody anything new: the node has a valid certificate of a control plane, or the person is an owner. */
  readonly isRunning: boolean;
  readonly signal: AbortSignal;
}

interface GrantUse extends DocumentUse {
  /** The control-plane certificate of the node, which may have expired, proves that it was a control plane before. */
  readonly wasRunning: boolean;
}

function checkGrant(
  { body }: VerifiedDocument<'grant'>,
  { nodeId, pubKey, roles, admission }: NodeRecord,
): void {
  const needed = roles.filter((role) => isControlPlane([role]));
  const differs =
    body.nodeId !== nodeId
      ? `it is for ${body.nodeId}`
      : body.fingerprint !== fingerprintOfKey(Buffer.from(pubKey, 'base64'))
        ? 'it is for another key'
        : admission !== undefined && body.identity !== admission.identity
          ? `it is for the machine ${body.identity}`
          : needed.every((role) => body.roles.includes(role))
            ? undefined
            : `it is for ${body.roles.join(', ')}`;
  if (differs !== undefined)
    throw new SignerError(
      'signer-grant-other',
      `signing for ${nodeId}: the grant does not match: ${differs}`,
    );
}
