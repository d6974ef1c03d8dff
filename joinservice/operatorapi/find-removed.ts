import { isRemovalNamed, records, REMOVED_PREFIX } from '../../internal/records/index.ts';
import { OperatorApiError } from './errors.ts';
import type { OperatorApiParts } from './operator-api-parts.ts';

/** Every removal is recorded under the node key, and under the hardware where that is known. */
const BY_KEY = 'machine-key:';

/**
 * Reports that this machine was removed, given the name or ID of its node, its identity or its fingerprint, or a prefix
 * of one of the last three. Returns if there is no such removal.
 * @throws OperatorApiError `operatorapi-join-removed`, `operatorapi-join-readmitted`
 */
export async function refuseRemoved(
  { etcd, ownerDocs }: Pick<OperatorApiParts, 'etcd' | 'ownerDocs'>,
  given: string,
  signal: AbortSignal,
): Promise<void> {
  const { entries } = await etcd.list(REMOVED_PREFIX, { signal });
  const all = entries.map(({ key, value }) => records.removed.decode(key, value));
  const [found] = all.filter((each) => isRemovalNamed(each, given)).sort((a, b) => b.removedMs - a.removedMs);
  if (found === undefined) return;
  const { name, removedMs, removedBy } = found;
  // A machine that was reset has another key: the readmission of its hardware counts, where that is on record.
  const main =
    all.find(({ nodeId, identity }) => nodeId === found.nodeId && !identity.startsWith(BY_KEY)) ?? found;
  const time = new Date(removedMs).toISOString().replace(/\.\d+Z$/, 'Z');
  const text = `machine ${JSON.stringify(given.slice(0, 80))} was removed as node ${name} at ${time} by ${removedBy}`;
  if ((await ownerDocs.whyNotReadmitted(main, signal)) !== undefined)
    throw new OperatorApiError('operatorapi-join-removed', text);
  throw new OperatorApiError(
    'operatorapi-join-readmitted',
    `${text}; it is readmitted, and has not asked to join again`,
  );
}
