import type { KeySpace } from '../../internal/etcd/index.ts';
import type { DocumentKind } from '../../internal/ownerdocument/index.ts';
import { documentKey, DOCUMENTS_PREFIX } from '../../internal/records/index.ts';
import { documentBytes } from './stored-documents.ts';

/** The chain of `owners` documents, for machines that verify it with the owners of their provisioning. Not verified here. */
export async function ownersForMachines(etcd: KeySpace, signal: AbortSignal): Promise<Uint8Array[]> {
  return (await etcd.list(`${DOCUMENTS_PREFIX}owners/`, { signal })).entries.map(documentBytes);
}

/** The document of a kind that exists once, for machines; empty without one. Not verified here. */
export async function documentForMachines(
  etcd: KeySpace,
  kind: Exclude<DocumentKind, 'owners' | 'grant' | 'readmission'>,
  signal: AbortSignal,
): Promise<Uint8Array[]> {
  const entry = await etcd.get(documentKey(kind, ''), { signal });
  return entry === undefined ? [] : [documentBytes(entry)];
}
