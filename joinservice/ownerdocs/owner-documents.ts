import {
  OwnerDocumentError,
  floorOf,
  verifyDocument,
  type DocumentKind,
  type Floor,
  type VerifiedDocument,
} from '../../internal/ownerdocument/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { ed25519SpkiFromRaw } from '../../internal/crypto/index.ts';
import type { Entry, KeyRange, KeySpace } from '../../internal/etcd/index.ts';
import { fingerprintOfKey } from '../../internal/pki/index.ts';
import {
  CLUSTER_KEY,
  documentKey,
  OPERATORS_PREFIX,
  OWNERS_PREFIX,
  records,
  type OperatorRecord,
  type RemovedRecord,
} from '../../internal/records/index.ts';
import type { OperatorRole } from '../../internal/role/index.ts';
import { documentBytes, ownersFrom } from './stored-documents.ts';
import { Submission, type CurrentTrust } from './submission.ts';

/** The sources of owner documents and of the first owners. */
export interface OwnerDocumentsPorts {
  /**
   * The state etcd, below the prefix of the cluster. Only the documents are read from etcd. The keys of the first
   * owners must not come from there, because etcd is not trusted.
   */
  readonly etcd: KeySpace;
  readonly clock: Clock;
  readonly clusterId: string;
  /** Raw Ed25519 keys from the configuration of this program. Empty: no document is valid. */
  readonly ownerKeys: readonly Uint8Array[];
}

/** An operator that an owner has signed. */
interface SignedOperator {
  /** Name in the signed list of operators; undefined for an owner who is not in the list. */
  readonly name: string | undefined;
  readonly role: OperatorRole;
}

/**
 * The record of an operator. It gives no access alone, because a program with access to etcd could restore the record
 * of a removed operator.
 */
export interface RecordedOperator {
  readonly record: OperatorRecord;
  /** Why the record gives no access: no owner has signed this name, key and role. Undefined if an owner has. */
  readonly whyUnsigned: string | undefined;
}

/** Options for documents that may be in effect already, and are then valid longer. */
interface EffectOptions {
  readonly signal: AbortSignal;
  readonly mayHaveEnded?: boolean;
  readonly anyEpoch?: boolean;
}

/** The records that are read to verify any document. */
const TRUST = [{ key: CLUSTER_KEY }, { prefix: OWNERS_PREFIX }];

/** Reads owner documents from etcd and verifies each with owners that do not come from etcd. */
export class OwnerDocuments {
  readonly #ports: OwnerDocumentsPorts;
  /**
   * The newest document that this process has accepted, by etcd key: if etcd returns an older one later, that
   * is refused.
   */
  readonly #floors = new Map<string, Floor>();
  /** The newest document of kind `owners` that this process has accepted. These documents form a chain. */
  #ownersFloor: Floor | undefined;

  constructor(ports: OwnerDocumentsPorts) {
    this.#ports = ports;
  }

  /** The current owners. @throws OwnerDocumentError if the chain of `owners` documents is broken: then no document is valid */
  async trust(signal: AbortSignal): Promise<CurrentTrust> {
    return twice(async () => {
      const [cluster, owners] = await this.#ports.etcd.readTogether(TRUST, { signal });
      return this.#trustFrom(cluster, owners);
    });
  }

  /**
   * The stored document of a kind, verified; undefined if there is none.
   * @param subject empty for kinds that exist once
   * @param options `mayHaveEnded` accepts an expired document, `anyEpoch` a document from before a recovery. Set them
   * only for decisions that are in effect already, never to admit something new
   * @throws OwnerDocumentError if the stored document is invalid
   */
  async newest<K extends DocumentKind>(
    kind: K,
    subject: string,
    options: EffectOptions,
  ): Promise<VerifiedDocument<K> | undefined> {
    const { signal } = options;
    const key = documentKey(kind, subject);
    // Most documents do not exist. The chain of owners is read only if the document exists.
    if (!this.#floors.has(key) && (await this.#ports.etcd.get(key, { signal })) === undefined)
      return undefined;
    return (await this.#newestAndTrust(kind, subject, options)).document;
  }

  /** Like `newest`, but treats an invalid document as missing and returns the reason in `why`. */
  async tryNewest<K extends DocumentKind>(
    kind: K,
    subject: string,
    signal: AbortSignal,
  ): Promise<{ readonly document: VerifiedDocument<K> | undefined; readonly why: string | undefined }> {
    try {
      return { document: await this.newest(kind, subject, { signal }), why: undefined };
    } catch (error) {
      if (error instanceof OwnerDocumentError) return { document: undefined, why: error.message };
      throw error;
    }
  }

  /**
   * The record of the operator with this key, and what owners have signed about it; undefined if there is no record.
   * A list of operators stays in effect after its end and after a recovery of the quorum. An owner whose key is in
   * the set of owners needs no list of operators. The name of such an owner is in no document until an owner signs
   * such a list.
   * @param fingerprint "sha256:HEX" of the key
   */
  async recordedOperator(fingerprint: string, signal: AbortSignal): Promise<RecordedOperator | undefined> {
    const key = records.operator.key(fingerprint);
    try {
      const options = { signal, mayHaveEnded: true, anyEpoch: true, also: { key } };
      const { document, trust, also } = await this.#newestAndTrust('operators', '', options);
      const [entry] = also;
      if (entry === undefined) return undefined;
      const record = records.operator.decode(key, entry.value);
      return { record, whyUnsigned: whyUnsigned(record, signedOperator(fingerprint, document, trust)) };
    } catch (error) {
      if (!(error instanceof OwnerDocumentError)) throw error;
      const { record } = await records.operator.read(this.#ports.etcd, key, signal);
      return record && { record, whyUnsigned: error.message };
    }
  }

  /**
   * The records of all operators that give access: an owner has signed name, key and role. The same rules as in
   * `recordedOperator`.
   * @throws OwnerDocumentError if the list of operators or the chain of owners is invalid
   */
  async signedOperators(signal: AbortSignal): Promise<readonly OperatorRecord[]> {
    const options = { signal, mayHaveEnded: true, anyEpoch: true, also: { prefix: OPERATORS_PREFIX } };
    const { document, trust, also } = await this.#newestAndTrust('operators', '', options);
    return also
      .map(({ key, value }) => ({ key, record: records.operator.decode(key, value) }))
      .filter(
        ({ key, record }) =>
          key === records.operator.key(record.fingerprint) &&
          whyUnsigned(record, signedOperator(record.fingerprint, document, trust)) === undefined,
      )
      .map(({ record }) => record);
  }

  /** Why no owner has signed a configuration; undefined if an owner has. */
  async whyConfigurationUnsigned(
    configurationSha256: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { document, why } = await this.tryNewest('policy', '', signal);
    if (document === undefined) return why ?? 'no owner has signed a configuration';
    if (document.body.configurationSha256 === configurationSha256) return undefined;
    return 'an owner signed another configuration than the current one';
  }

  /**
   * Why a configuration must not be applied: an owner has signed another one. A signature stays in effect after its end and after
   * a recovery of the quorum. Undefined also while no owner has signed any, as in a cluster that is older than owner documents.
   */
  async whyConfigurationNotInEffect(
    configurationSha256: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    try {
      const document = await this.newest('policy', '', { signal, mayHaveEnded: true, anyEpoch: true });
      const hadOne = this.#floors.has(documentKey('policy', ''));
      if (document === undefined) return hadOne ? 'the signature of the owner was deleted' : undefined;
      if (document.body.configurationSha256 === configurationSha256) return undefined;
      return 'an owner signed another configuration';
    } catch (error) {
      if (error instanceof OwnerDocumentError) return error.message;
      throw error;
    }
  }

  /**
   * Why a removed machine is still excluded; undefined if an owner readmitted it after its newest removal. A readmission
   * with a higher number has no effect either: it would cancel removals that have not happened yet.
   */
  async whyNotReadmitted(
    { identity, removal, name }: Pick<RemovedRecord, 'identity' | 'removal' | 'name'>,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { document, why } = await this.tryNewest('readmission', identity, signal);
    if (document?.body.removal === removal) return undefined;
    const text = `it was removed as node ${name}, and no owner has readmitted it`;
    return why === undefined ? text : `${text}: ${why}`;
  }

  /** Verifies the documents that a caller submits with a change, one after the other. Nothing is stored yet. */
  async submission(
    documents: readonly Uint8Array[],
    by: { readonly recordedBy: string; readonly signal: AbortSignal },
  ): Promise<Submission> {
    const { signal, recordedBy } = by;
    const submission = new Submission({ trust: await this.trust(signal), recordedBy });
    for (const bytes of documents) {
      const key = Submission.keyFor(bytes);
      submission.add(bytes, await this.#ports.etcd.get(key, { signal }));
    }
    return submission;
  }

  /**
   * Reads a document and the owners at the same revision, so that no change of the owners comes between the two.
   * @param options `also`: other keys to read
   */
  async #newestAndTrust<K extends DocumentKind>(
    kind: K,
    subject: string,
    options: EffectOptions & { readonly also?: KeyRange },
  ): Promise<{
    readonly document: VerifiedDocument<K> | undefined;
    readonly trust: CurrentTrust;
    readonly also: readonly Entry[];
  }> {
    const key = documentKey(kind, subject);
    return twice(async () => {
      const ranges = [...TRUST, { key }, ...(options.also === undefined ? [] : [options.also])];
      const [cluster, owners, stored, also = []] = await this.#ports.etcd.readTogether(ranges, options);
      const trust = this.#trustFrom(cluster, owners);
      const entry = stored?.[0];
      if (entry === undefined) return { document: undefined, trust, also };
      const document = verifyDocument(documentBytes(entry), {
        ...trust,
        ...(options.anyEpoch === true ? { epoch: 1 } : {}),
        kind,
        floor: this.#floors.get(key),
        acceptExpired: options.mayHaveEnded ?? false,
      });
      this.#floors.set(key, floorOf(document));
      return { document, trust, also };
    });
  }

  #trustFrom(cluster: readonly Entry[] = [], stored: readonly Entry[] = []): CurrentTrust {
    const { clock, clusterId, ownerKeys } = this.#ports;
    const [first, ...others] = ownerKeys;
    const base = { clusterId, nowMs: clock.nowMs() };
    const owners = first && ownersFrom(stored, [first, ...others], { ...base, seen: this.#ownersFloor });
    this.#ownersFloor = owners?.floor;
    const [entry] = cluster;
    return {
      ...base,
      epoch: entry === undefined ? 1 : records.cluster.decode(CLUSTER_KEY, entry.value).epoch,
      owners: owners?.keys ?? [],
      ownersFloor: owners?.floor,
    };
  }
}

/**
 * If a slow read ends after a newer read, its documents look as if etcd had gone back to older ones. A refusal is
 * therefore final only if a second read repeats it.
 */
async function twice<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof OwnerDocumentError) return read();
    throw error;
  }
}

function signedOperator(
  fingerprint: string,
  list: VerifiedDocument<'operators'> | undefined,
  trust: CurrentTrust,
): SignedOperator | undefined {
  const listed = list?.body.operators.find((each) => each.fingerprint === fingerprint);
  if (listed !== undefined) return listed;
  const isOwner = trust.owners.some((raw) => fingerprintOfKey(ed25519SpkiFromRaw(raw)) === fingerprint);
  return isOwner ? { name: undefined, role: 'owner' } : undefined;
}

function whyUnsigned({ name, role }: OperatorRecord, signed: SignedOperator | undefined): string | undefined {
  if (signed?.role === role && (signed.name ?? name) === name) return undefined;
  if (signed === undefined) return 'no owner has signed this key';
  return `an owner signed this key as ${signed.role} ${signed.name ?? ''}`.trim();
}
