import type { EtcdClient, EtcdUser } from '../../internal/etcd/index.ts';
import { CLUSTER_PREFIX } from '../../internal/records/index.ts';

/**
 * Who may touch what. The API server and the curator are kept out of each other's keys by etcd itself, so that a flaw
 * in one does not open the other.
 */
export const ACCESS: readonly EtcdUser[] = [
  { name: 'root', grants: [] },
  { name: 'curator', grants: [{ kind: 'prefix', prefix: CLUSTER_PREFIX }] },
  // What signs looks at records and changes none.
  { name: 'signer', grants: [{ kind: 'prefix', prefix: CLUSTER_PREFIX, access: 'read' }] },
  {
    name: 'apiserver',
    grants: [
      { kind: 'prefix', prefix: '/registry/' },
      // The API servers agree on compactions through this one key outside their prefix.
      { kind: 'key', key: 'compact_rev_key' },
    ],
  },
];

/** Users, roles and grants, then the switch. Every step may be repeated; until the switch nobody else is let near. */
export async function ensureAccessControl(
  etcd: Pick<EtcdClient, 'access'>,
  signal: AbortSignal,
): Promise<void> {
  for (const user of ACCESS) await etcd.access.ensureUser(user, { signal });
  if (!(await etcd.access.isEnabled({ signal }))) await etcd.access.enable({ signal });
}
