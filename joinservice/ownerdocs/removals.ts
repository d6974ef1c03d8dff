import {
  put,
  unchanged,
  absent,
  type Condition,
  type Entry,
  type KeySpace,
  type Write,
} from '../../internal/etcd/index.ts';
import { fingerprintOfKey } from '../../internal/pki/index.ts';
import { records, type NodeRecord, type RemovedRecord } from '../../internal/records/index.ts';

/** Chips and platforms that several guests share: what one of them did says nothing about its neighbours. */
const SHARED = /^(snp-chip|snp-csp|tdx-platform):/;

/** The identity of a machine by nothing but its node key; a reset replaces that key. */
export function keyIdentityOf(pubKeyDer: Uint8Array): string {
  return `machine-key:${fingerprintOfKey(pubKeyDer).replace('sha256:', '')}`;
}

/**
 * Under which identities a machine is remembered when its node is removed: its node key always, its hardware where that is
 * its own. A chip or platform is a machine's own if the inventory names it.
 */
export function removedIdentities(
  { pubKey, admission }: Pick<NodeRecord, 'pubKey' | 'admission'>,
  isListed: (identity: string) => boolean,
): readonly string[] {
  const byKey = keyIdentityOf(Buffer.from(pubKey, 'base64'));
  const identity = admission?.identity;
  if (identity === undefined || (SHARED.test(identity) && !isListed(identity))) return [byKey];
  return [...new Set([identity, byKey])];
}

/** What is on record about the removal of a machine, by identity. */
export interface RemovalEntry {
  readonly identity: string;
  readonly entry: Entry | undefined;
  readonly record: RemovedRecord | undefined;
}

export async function readRemovals(
  etcd: KeySpace,
  identities: readonly string[],
  signal: AbortSignal,
): Promise<readonly RemovalEntry[]> {
  return Promise.all(
    identities.map(async (identity) => {
      const key = records.removed.key(identity);
      const entry = await etcd.get(key, { signal });
      return { identity, entry, record: entry && records.removed.decode(key, entry.value) };
    }),
  );
}

/** What a removal leaves behind. No deletion takes it away; a later removal of the same machine counts up. */
export function planRemoval(
  before: readonly RemovalEntry[],
  node: Pick<NodeRecord, 'nodeId' | 'name'>,
  by: { readonly nowMs: number; readonly removedBy: string },
): { readonly when: readonly Condition[]; readonly then: readonly Write[] } {
  return {
    when: before.map(({ identity, entry }) =>
      entry === undefined ? absent(records.removed.key(identity)) : unchanged(entry),
    ),
    then: before.map(({ identity, record }) =>
      put(
        records.removed.key(identity),
        records.removed.encode({
          version: 1,
          identity,
          removal: (record?.removal ?? 0) + 1,
          nodeId: node.nodeId,
          name: node.name,
          removedMs: by.nowMs,
          removedBy: by.removedBy,
        }),
      ),
    ),
  };
}
