import type { Condition, KeySpace, Write } from '../etcd/index.ts';
import { isControlPlane } from '../role/index.ts';
import { fingerprintOfKey } from '../pki/index.ts';
import { records, type StoredRecord } from './record-kinds.ts';
import type { NodeRecord, RemovedRecord } from './node-shapes.ts';

/** Identities of chips and platforms, which several virtual machines can share. */
const SHARED = /^(snp-chip|snp-csp|tdx-platform):/;

/** Whether several machines may have this identity. */
export function isSharedIdentity(identity: string): boolean {
  return SHARED.test(identity);
}

/** The identity of a machine by its node key alone, which a reset replaces. */
export function keyIdentityOf(pubKeyDer: Uint8Array): string {
  return `machine-key:${fingerprintOfKey(pubKeyDer).replace('sha256:', '')}`;
}

/**
 * The identities under which a removal is recorded: always the node key, and the hardware unless other machines may share it. A
 * chip or platform belongs to one machine if the inventory lists it.
 */
export function removedIdentities(
  { pubKey, admission }: Pick<NodeRecord, 'pubKey' | 'admission'>,
  isListed: (identity: string) => boolean,
): readonly string[] {
  const byKey = keyIdentityOf(Buffer.from(pubKey, 'base64'));
  const identity = admission?.identity;
  if (identity === undefined || (isSharedIdentity(identity) && !isListed(identity))) return [byKey];
  return [...new Set([identity, byKey])];
}

/** A shorter prefix of an ID, identity or fingerprint would match too many machines. */
export const MIN_PREFIX = 8;

/** An ID, identity or fingerprint without its kind: the digits of `node-…`, `tpm-ek:…` or `sha256:…`. */
export function digitsOf(text: string): string {
  return text.replace(/^[a-z0-9-]+:|^node-/, '');
}

/**
 * Whether an operator means this removal: by the name or ID of the node, the identity or fingerprint of the machine, or at least
 * eight digits that one of the last three begins with. The identity of a machine by its key has the digits of the fingerprint of
 * that key, of which a node ID is a prefix.
 */
export function isRemovalNamed(
  { name, nodeId, identity }: Pick<RemovedRecord, 'name' | 'nodeId' | 'identity'>,
  given: string,
): boolean {
  if ([name, nodeId, identity].includes(given)) return true;
  const wanted = digitsOf(given);
  return wanted.length >= MIN_PREFIX && [nodeId, identity].some((each) => digitsOf(each).startsWith(wanted));
}

/** The stored removal of a machine under one identity. */
export interface RemovalEntry extends StoredRecord<RemovedRecord> {
  readonly identity: string;
}

/** Reads the removals of these identities. */
export async function readRemovals(
  etcd: KeySpace,
  identities: readonly string[],
  signal: AbortSignal,
): Promise<readonly RemovalEntry[]> {
  return Promise.all(
    identities.map(async (identity) => ({
      identity,
      ...(await records.removed.read(etcd, records.removed.key(identity), signal)),
    })),
  );
}

/** What a removal tells about the shared keys of the node. */
export type RemovedKeys = Pick<RemovedRecord, 'sharedKeys' | 'keyGeneration'>;

/**
 * What is known about the shared keys of a node that is removed. Its roles are taken before its record is deleted, so
 * they alone do not tell.
 * @param status what the node reported last; undefined if it never did
 */
export function removedKeysOf(
  { roles, wasControlPlane }: Pick<NodeRecord, 'roles' | 'wasControlPlane'>,
  status: { readonly holdsKeys: boolean; readonly keyGeneration: number | undefined } | undefined,
): RemovedKeys {
  const hadKeys = isControlPlane(roles) || status?.holdsKeys === true ? true : wasControlPlane;
  if (hadKeys === undefined) return {};
  if (!hadKeys) return { sharedKeys: 'none' };
  const keyGeneration = status?.keyGeneration;
  return {
    sharedKeys: status?.holdsKeys === false ? 'deleted' : 'left',
    ...(keyGeneration === undefined ? {} : { keyGeneration }),
  };
}

/** Records a removal. It is never deleted; a later removal of the same machine increments its counter. */
export function planRemoval(
  before: readonly RemovalEntry[],
  node: Pick<NodeRecord, 'nodeId' | 'name'>,
  by: { readonly nowMs: number; readonly removedBy: string; readonly keys?: RemovedKeys },
): { readonly when: readonly Condition[]; readonly then: readonly Write[] } {
  return {
    when: before.map(({ unchanged }) => unchanged),
    then: before.map(({ identity, record }) =>
      records.removed.put(records.removed.key(identity), {
        version: 1,
        identity,
        removal: (record?.removal ?? 0) + 1,
        nodeId: node.nodeId,
        name: node.name,
        removedMs: by.nowMs,
        removedBy: by.removedBy,
        ...by.keys,
      }),
    ),
  };
}
