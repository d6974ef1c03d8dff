import { createHash } from 'node:crypto';
import {
  OwnerDocumentError,
  floorOf,
  parseDocument,
  verifyDocument,
  type DocumentTrust,
  type Floor,
} from '../../internal/ownerdocument/index.ts';
import type { Entry } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';

/** SHA-256, lower-case hex. */
export function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The exact bytes of a stored document. @throws OwnerDocumentError `owner-document-malformed` */
export function documentBytes({ key, value }: Entry): Uint8Array {
  try {
    return new Uint8Array(Buffer.from(records.document.decode(key, value).document, 'base64'));
  } catch (cause) {
    throw new OwnerDocumentError('owner-document-malformed', `reading ${key}`, { cause });
  }
}

/** The serial and hash of the stored document if a current owner signed it; an invalid document does not block a new one. */
export function storedFloor(entry: Entry | undefined, trust: DocumentTrust): Floor | undefined {
  if (entry === undefined) return undefined;
  try {
    const bytes = documentBytes(entry);
    const { kind } = parseDocument(bytes);
    return floorOf(
      verifyDocument(bytes, { ...trust, epoch: 1, kind, floor: undefined, acceptExpired: true }),
    );
  } catch (error) {
    if (error instanceof OwnerDocumentError) return undefined;
    throw error;
  }
}
