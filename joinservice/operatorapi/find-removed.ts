import type { KeySpace } from '../../internal/etcd/index.ts';
import { isRemovalNamed, records, REMOVED_PREFIX } from '../../internal/records/index.ts';
import { OperatorApiError } from './errors.ts';

/**
 * Reports that this machine was removed, given the name or ID of its node, its identity or its fingerprint, or a prefix
 * of one of the last three. Returns if there is no such removal.
 * @throws OperatorApiError `operatorapi-join-removed`
 */
export async function refuseRemoved(etcd: KeySpace, given: string, signal: AbortSignal): Promise<void> {
  const { entries } = await etcd.list(REMOVED_PREFIX, { signal });
  const all = entries.map(({ key, value }) => records.removed.decode(key, value));
  const [found] = all.filter((each) => isRemovalNamed(each, given)).sort((a, b) => b.removedMs - a.removedMs);
  if (found === undefined) return;
  const { name, removedMs, removedBy } = found;
  const time = new Date(removedMs).toISOString().replace(/\.\d+Z$/, 'Z');
  throw new OperatorApiError(
    'operatorapi-join-removed',
    `machine ${JSON.stringify(given.slice(0, 80))} was removed as node ${name} at ${time} by ${removedBy}`,
  );
}
