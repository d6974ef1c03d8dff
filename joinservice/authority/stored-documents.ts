import { createHash } from 'node:crypto';
import {
  AuthorityError,
  floorOf,
  parseDocument,
  verifyDocument,
  type DocumentTrust,
  type Floor,
} from '../../internal/authority/index.ts';
import type { Entry } from '../../internal/etcd/index.ts';
import { records } from '../../internal/records/index.ts';

export function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The exact bytes of a stored document. @throws AuthorityError `authority-malformed` */
export function documentIn({ key, value }: Entry): Uint8Array {
  try {
    return new Uint8Array(Buffer.from(records.document.decode(key, value).document, 'base64'));
  } catch (cause) {
    throw new AuthorityError('authority-malformed', `reading ${key}`, { cause });
  }
}

/** The serial and hash of what is stored, where an owner of now signed it: whatever else lies there holds nobody back. */
export function storedFloor(entry: Entry | undefined, trust: DocumentTrust): Floor | undefined {
  if (entry === undefined) return undefined;
  try {
    const bytes = documentIn(entry);
    const { kind } = parseDocument(bytes);
    return floorOf(verifyDocument(bytes, { ...trust, epoch: 1, kind, floor: undefined, mayHaveEnded: true }));
  } catch (error) {
    if (error instanceof AuthorityError) return undefined;
    throw error;
  }
}
