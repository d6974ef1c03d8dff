import type { EtcdClient } from '../../internal/etcd/index.ts';
import type { EtcdInstance } from './etcd-instances.ts';

/** Users, roles and grants, then the switch. Every step may be repeated; until the switch nobody else is let near. */
export async function ensureAccessControl(
  etcd: Pick<EtcdClient, 'access'>,
  { access }: Pick<EtcdInstance, 'access'>,
  signal: AbortSignal,
): Promise<void> {
  if (access === undefined) return;
  for (const user of access) await etcd.access.ensureUser(user, { signal });
  if (!(await etcd.access.isEnabled({ signal }))) await etcd.access.enable({ signal });
}
