import { documentKey } from '../records/index.ts';
import { subjectOf } from './bodies.ts';
import type { UnverifiedDocument } from './owner-document.ts';

/** Where etcd has a document: by kind and subject; every set of owners by its serial, since all of them are kept. */
export function recordKeyOf(document: UnverifiedDocument): string {
  const { kind, serial } = document;
  return documentKey(kind, kind === 'owners' ? serial : subjectOf(document));
}
