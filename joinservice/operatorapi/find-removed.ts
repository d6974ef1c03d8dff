import type { KeySpace } from '../../internal/etcd/index.ts';
import { records, REMOVED_PREFIX, type RemovedRecord } from '../../internal/records/index.ts';
import { OperatorApiError } from './errors.ts';
import { MIN_PREFIX } from './find-join.ts';

/**
 * Reports that this machine was removed, given the name or ID of its node, its identity or its fingerprint, or a prefix
 * of one of the last three. Returns if there is no such removal.
 * @throws OperatorApiError `operatorapi-join-removed`
 */
export async function refuseRemoved(etcd: KeySpace, given: string, signal: AbortSignal): Promise<void> {
  const { entries } = await etcd.list(REMOVED_PREFIX, { signal });
  const all = entries.map(({ key, value }) => records.removed.decode(key, value));
  const [found] = all.filter((each) => isNamed(each, given)).sort((a, b) => b.removedMs - a.removedMs);
  if (found === undefined) return;
  const { name, removedMs, removedBy } = found;
  const time = new Date(removedMs).toISOString().replace(/\.\d+Z$/, 'Z');
  throw new OperatorApiError(
    'operatorapi-join-removed',
    `machine ${JSON.stringify(given.slice(0, 80))} was removed as node ${name} at ${time} by ${removedBy}`,
  );
}

/** The identity of a machine by its key has the same digits as the fingerprint of that key, of which a node ID is a prefix. */
function isNamed({ name, nodeId, identity }: RemovedRecord, given: string): boolean {
  if ([name, nodeId, identity].includes(given)) return true;
  const bare = (text: string): string => text.replace(/^[a-z0-9-]+:|^node-/, '');
  const wanted = bare(given);
  return wanted.length >= MIN_PREFIX && [nodeId, identity].some((each) => bare(each).startsWith(wanted));
}
