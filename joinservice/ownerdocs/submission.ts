import {
  OwnerDocumentError,
  floorOf,
  parseDocument,
  recordKeyOf,
  subjectOf,
  verifyDocument,
  type DocumentKind,
  type DocumentTrust,
  type Floor,
  type VerifiedDocument,
} from '../../internal/ownerdocument/index.ts';
import { absent, unchanged, type Condition, type Entry, type Write } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';
import { sha256Of, storedFloor } from './stored-documents.ts';

const MAX_DOCUMENTS = 64;

/** The current owners, the newest `owners` document, and the epoch of the cluster. */
export interface CurrentTrust extends DocumentTrust {
  readonly ownersFloor: Floor | undefined;
}

/** Owner documents submitted with one change: verified, and stored in the same transaction. */
export class Submission {
  readonly when: Condition[] = [];
  readonly then: Write[] = [];
  readonly #documents: VerifiedDocument<DocumentKind>[] = [];
  readonly #recordedBy: string;
  #trust: CurrentTrust;

  constructor(options: { readonly trust: CurrentTrust; readonly recordedBy: string }) {
    this.#trust = options.trust;
    this.#recordedBy = options.recordedBy;
  }

  /** The etcd key of a document. @throws OwnerDocumentError if it is malformed */
  static keyFor(bytes: Uint8Array): string {
    return recordKeyOf(parseDocument(bytes));
  }

  /** The raw keys of the owners after this submission; undefined while no `owners` document exists. */
  get signedOwners(): readonly Uint8Array[] | undefined {
    return this.#trust.ownersFloor === undefined ? undefined : this.#trust.owners;
  }

  /** The submitted documents for the audit log. */
  get detail(): readonly string[] {
    return this.#documents.map((each) => `${each.kind} ${each.serial} ${subjectOf(each)}`.trim());
  }

  /**
   * Verifies a document and adds it.
   * @param stored the entry that it replaces
   * @throws OwnerDocumentError
   */
  add(bytes: Uint8Array, stored: Entry | undefined): void {
    if (this.#documents.length === MAX_DOCUMENTS)
      throw new OwnerDocumentError(
        'owner-document-malformed',
        `storing documents: more than ${MAX_DOCUMENTS} in one call`,
      );
    const { kind } = parseDocument(bytes);
    const document = kind === 'owners' ? this.#addOwners(bytes) : this.#addOther(kind, bytes, stored);
    this.#documents.push(document);
    const key = Submission.keyFor(bytes);
    this.when.push(stored === undefined ? absent(key) : unchanged(stored));
    const record = {
      version: 1 as const,
      document: Buffer.from(bytes).toString('base64'),
      recordedMs: this.#trust.nowMs,
      recordedBy: this.#recordedBy,
    };
    this.then.push(records.document.put(key, record));
  }

  /** The submitted document of a kind; undefined if there is none. */
  find<K extends DocumentKind>(kind: K, subject = ''): VerifiedDocument<K> | undefined {
    return this.#documents.find(
      (each): each is VerifiedDocument<K> => each.kind === kind && subjectOf(each) === subject,
    );
  }

  /** Whether the submission has the signature of an owner over exactly this configuration. */
  coversConfiguration(document: Uint8Array): boolean {
    return this.find('policy')?.body.configurationSha256 === sha256Of(document);
  }

  #addOther(
    kind: DocumentKind,
    bytes: Uint8Array,
    stored: Entry | undefined,
  ): VerifiedDocument<DocumentKind> {
    return verifyDocument(bytes, { ...this.#trust, kind, floor: storedFloor(stored, this.#trust) });
  }

  /** Adds the next `owners` document. Later documents of the submission are verified with its owners. */
  #addOwners(bytes: Uint8Array): VerifiedDocument<'owners'> {
    const { ownersFloor } = this.#trust;
    const document = verifyDocument(bytes, { ...this.#trust, kind: 'owners', floor: ownersFloor });
    const next = (ownersFloor?.serial ?? 0) + 1;
    // A gap in the chain could be filled later with other owners.
    if (document.serial > next)
      throw new OwnerDocumentError(
        'owner-document-malformed',
        `storing owners ${document.serial}: the next serial is ${next}`,
      );
    const owners = document.body.keys.map((key) => new Uint8Array(Buffer.from(key, 'base64')));
    this.#trust = { ...this.#trust, owners, ownersFloor: floorOf(document) };
    return document;
  }
}
