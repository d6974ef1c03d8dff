import { currentValue, type Readable } from '../../internal/event/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Membership } from '../membership/index.ts';
import type { NodeState } from '../nodestate/index.ts';
import { writeCredentials } from './install-ticket.ts';

/** Changes the membership of this node, on disk and then for all workers. Resolves to the new one. */
export type UpdateMembership = (change: (now: Membership) => Membership) => Promise<Membership>;

/**
 * Creates the function with which workers change the membership. Renewals of the certificate and rotations of the cluster CA may run
 * at the same time, so the changes are carried out one after the other, each from the result of the one before. May be repeated
 * after a crash.
 */
export function createMembershipUpdates({
  files,
  state,
  reads,
  publish,
}: {
  readonly files: FilePort;
  readonly state: Pick<NodeState, 'membership'>;
  readonly reads: { readonly clusterMembership: Readable<Membership | undefined> };
  readonly publish: (membership: Membership) => void;
}): UpdateMembership {
  let last: Promise<unknown> = Promise.resolve();
  const update = async (change: (now: Membership) => Membership): Promise<Membership> => {
    const now = currentValue(reads.clusterMembership);
    if (now === undefined) throw new TypeError('called before this node is a member');
    const changed = change(now);
    await writeCredentials(files, changed);
    await state.membership.save(changed);
    publish(changed);
    return changed;
  };
  return (change) => {
    const result = last.then(() => update(change));
    last = result.catch(() => undefined); // the caller of the other change gets its error
    return result;
  };
}
