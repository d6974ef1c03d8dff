import type { Clock } from '../../../internal/clock/index.ts';
import { parseClusterConfig, type InventoryMachine } from '../../../internal/config/index.ts';
import { unchanged, type Entry, type KeySpace } from '../../../internal/etcd/index.ts';
import {
  CONFIGURATION_KEY,
  planRemoval,
  readRemovals,
  removedIdentities,
  removedKeysOf,
  type RemovalEntry,
} from '../../../internal/records/index.ts';
import type { Call } from '../../../internal/rpc/index.ts';
import type { OwnerDocuments, Submission } from '../../ownerdocs/index.ts';
import type { DeleteNodeRequest } from '../../curatorproto/gen/curator_pb.js';
import { nameOfCaller, type Caller } from '../access/authorize-caller.ts';
import { configurationChange, configurationWrite } from './configuration-plan.ts';
import { CuratorError } from '../errors.ts';
import type { MutationPlan } from './mutations.ts';
import { planDeletion } from './node-plans.ts';
import type { NodeStore } from '../nodes/node-store.ts';
import { readableConfiguration, submitterOf, withDocuments } from './signed-changes.ts';
import { nodeStatusOf, refuseField, type NodeView } from '../nodes/node-wire.ts';

interface DeletionParts {
  readonly etcd: KeySpace;
  readonly nodes: NodeStore;
  readonly clock: Clock;
  readonly ownerDocs: OwnerDocuments;
}

/**
 * Deletes a node and records the removal of its machine in one transaction. Only a readmission that an owner has
 * signed lifts the removal. The inventory entries of the machine are removed from the configuration, except where an
 * owner readmits the machine with the same call (a reset).
 * @throws CuratorError, OwnerDocumentError
 */
export async function planSignedDeletion(
  { etcd, nodes, clock, ownerDocs }: DeletionParts,
  request: DeleteNodeRequest,
  call: Call<Caller>,
): Promise<MutationPlan> {
  const { signal } = call;
  const [node, entry, submission] = [
    await nodes.get(request.nodeId, signal),
    await etcd.get(CONFIGURATION_KEY, { signal }),
    await ownerDocs.submission(request.documents, submitterOf(call)),
  ];
  // This check comes first, so that an active member is always refused with the same error.
  const deletion = planDeletion(node);
  const inventory = readableConfiguration(entry)?.join.inventory ?? [];
  const isListed = (identity: string): boolean => inventory.some((each) => each.identity === identity);
  const removals = await readRemovals(etcd, removedIdentities(node.record, isListed), signal);
  const keys = removedKeysOf(node.record, reportedKeys(node));
  const by = { nowMs: clock.nowMs(), removedBy: nameOfCaller(call.peer), keys };
  const removal = planRemoval(removals, node.record, by);
  const listed = inventory.filter(({ identity }) => removals.some((each) => each.identity === identity));
  const isReadmittedNow = isReadmitted(removals, submission);
  const configuration = planInventory(entry, {
    request,
    listed: isReadmittedNow ? [] : listed,
    submission,
    by,
  });
  return withDocuments(
    {
      when: [...deletion.when, ...removal.when, ...configuration.when],
      then: [...deletion.then, ...removal.then, ...configuration.then],
      detail: {
        ...deletion.detail,
        machine: removals.map(({ identity, record }) => `${identity} ${(record?.removal ?? 0) + 1}`),
        readmitted: isReadmittedNow,
        ...(keys.sharedKeys === undefined ? {} : { sharedKeys: keys.sharedKeys }),
        inventory: configuration.then.length === 0 ? [] : listed.map(({ name }) => name),
      },
    },
    submission,
  );
}

function reportedKeys(node: NodeView): Parameters<typeof removedKeysOf>[1] {
  const status = nodeStatusOf(node);
  const generation = Number(status?.keys?.generation ?? 0n);
  const keyGeneration = generation === 0 ? undefined : generation;
  return status && { holdsKeys: status.holdsKeys, keyGeneration };
}

/** Whether an owner readmits the removed machine with the same call. */
function isReadmitted(removals: readonly RemovalEntry[], submission: Submission): boolean {
  return removals.some(
    ({ identity, record }) =>
      submission.find('readmission', identity)?.body.removal === (record?.removal ?? 0) + 1,
  );
}

/** The change of the configuration that removes these entries, signed by an owner; empty if there are none. */
function planInventory(
  entry: Entry | undefined,
  made: {
    readonly request: DeleteNodeRequest;
    readonly listed: readonly InventoryMachine[];
    readonly submission: Submission;
    readonly by: { readonly nowMs: number; readonly removedBy: string };
  },
): Pick<MutationPlan, 'when' | 'then'> {
  const { request, listed, submission, by } = made;
  const { configuration: document, baseRevision } = request;
  if (document.length === 0) {
    // The configuration does not list the machine; this condition makes the commit fail if the configuration is
    // changed before.
    if (listed.length === 0) return { when: entry === undefined ? [] : [unchanged(entry)], then: [] };
    const names = listed.map(({ name, identity }) => `${name} (${identity})`).join(', ');
    throw new CuratorError(
      'curator-inventory-names',
      `cannot delete ${request.nodeId}: the inventory still lists ${names}`,
    );
  }
  const change = configurationChange(entry, { document, baseRevision }, submission);
  const kept = parseClusterConfig(Buffer.from(document).toString('utf8'), 'the new configuration').join
    .inventory;
  const left = kept.find(({ identity }) => listed.some((each) => each.identity === identity));
  if (left !== undefined) refuseField('configuration', `it still lists ${left.name} (${left.identity})`);
  return {
    when: [unchanged(change.entry)],
    then:
      change.paths.length === 0
        ? []
        : [configurationWrite(document, { updatedMs: by.nowMs, updatedBy: by.removedBy })],
  };
}
