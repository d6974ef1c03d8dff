import type { KeySpace } from '../../internal/etcd/index.ts';
import type { DocumentKind } from '../../internal/ownerdocument/index.ts';
import { documentKey, DOCUMENTS_PREFIX } from '../../internal/records/index.ts';
import { documentBytes } from './stored-documents.ts';

/**
 * The chain of `owners` documents. It is not verified here, because machines verify it with the owners in their
 * provisioning.
 */
export async function ownersForMachines(etcd: KeySpace, signal: AbortSignal): Promise<Uint8Array[]> {
  return (await etcd.list(`${DOCUMENTS_PREFIX}owners/`, { signal })).entries.map(documentBytes);
}

/**
 * The document of a kind that has only one document; empty if there is none. It is not verified here, because
 * machines verify it.
 */
export async function documentForMachines(
  etcd: KeySpace,
  kind: Exclude<DocumentKind, 'owners' | 'grant' | 'readmission'>,
  signal: AbortSignal,
): Promise<Uint8Array[]> {
  const entry = await etcd.get(documentKey(kind, ''), { signal });
  return entry === undefined ? [] : [documentBytes(entry)];
}
