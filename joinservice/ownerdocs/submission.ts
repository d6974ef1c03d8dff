import {
  OwnerDocumentError,
  floorOf,
  parseDocument,
  recordKeyOf,
  subjectOf,
  verifyDocument,
  type DocumentKind,
  type VerifiedDocument,
} from '../../internal/ownerdocument/index.ts';
import { absent, put, unchanged, type Condition, type Entry, type Write } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';
import { sha256Of, storedFloor } from './stored-documents.ts';
import type { CurrentTrust } from './current-trust.ts';

const MAX_DOCUMENTS = 64;

/** Documents that came with one change: verified, and what stores them in the same transaction. */
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

  /** Where a document belongs. @throws OwnerDocumentError for what is none */
  static keyFor(bytes: Uint8Array): string {
    return recordKeyOf(parseDocument(bytes));
  }

  /** Raw keys of the owners as documents say it, after this submission; undefined while the provisioning alone does. */
  get signedOwners(): readonly Uint8Array[] | undefined {
    return this.#trust.ownersFloor === undefined ? undefined : this.#trust.owners;
  }

  /** For the audit. */
  get detail(): readonly string[] {
    return this.#documents.map((each) => `${each.kind} ${each.serial} ${subjectOf(each)}`.trim());
  }

  /** @param stored what is on record in the place of this document. @throws OwnerDocumentError */
  add(bytes: Uint8Array, stored: Entry | undefined): void {
    if (this.#documents.length === MAX_DOCUMENTS)
      throw new OwnerDocumentError(
        'owner-document-malformed',
        `storing documents: more than ${MAX_DOCUMENTS}`,
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
    this.then.push(put(key, records.document.encode(record)));
  }

  /** The document of a kind that was submitted. */
  find<K extends DocumentKind>(kind: K, subject = ''): VerifiedDocument<K> | undefined {
    return this.#documents.find(
      (each): each is VerifiedDocument<K> => each.kind === kind && subjectOf(each) === subject,
    );
  }

  /** Whether an owner signed, with this change, exactly this configuration. */
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

  /** The next link of the chain; the documents after it are verified with the owners that it names. */
  #addOwners(bytes: Uint8Array): VerifiedDocument<'owners'> {
    const { ownersFloor } = this.#trust;
    const document = verifyDocument(bytes, { ...this.#trust, kind: 'owners', floor: ownersFloor });
    const next = (ownersFloor?.serial ?? 0) + 1;
    // A gap could be filled later with a set that leads elsewhere.
    if (document.serial > next)
      throw new OwnerDocumentError(
        'owner-document-malformed',
        `storing owners ${document.serial}: the next set is ${next}`,
      );
    const owners = document.body.keys.map((key) => new Uint8Array(Buffer.from(key, 'base64')));
    this.#trust = { ...this.#trust, owners, ownersFloor: floorOf(document) };
    return document;
  }
}
