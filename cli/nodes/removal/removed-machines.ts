import { isRemovalNamed } from '../../../internal/records/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { RemovedMachine } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { NodesError } from '../errors.ts';

/** Every removal is recorded under the node key, and under the hardware where that is known. */
export const BY_KEY = 'machine-key:';

/** What is on record of one removed machine. */
export interface RemovedNode {
  /** The record by which the machine is known: that of its hardware, or else that of its node key. */
  readonly main: RemovedMachine;
  /** All records of its removal. */
  readonly records: readonly RemovedMachine[];
  /**
   * True if the record of the hardware is that of a later removal: the machine was reset in between, so that only its
   * former key is left, which stays refused.
   */
  readonly isFormer: boolean;
}

/** Groups the records of removals by the node that was removed, in their order. */
export function removedNodesOf(removed: readonly RemovedMachine[]): readonly RemovedNode[] {
  const groups = Map.groupBy(removed, ({ nodeId }) => nodeId);
  const nodes = [...groups.values()].map((records) => ({ main: mainOf(records), records }));
  return nodes.map((node) => ({
    ...node,
    isFormer: nodes.some((other) => isReplacedBy(node.main, other.main)),
  }));
}

function mainOf(records: readonly RemovedMachine[]): RemovedMachine {
  const [first] = records.toSorted((a, b) => Number(isKey(a)) - Number(isKey(b)));
  if (first === undefined) throw new TypeError('no record of a removal');
  return first;
}

function isKey({ identity }: RemovedMachine): boolean {
  return identity.startsWith(BY_KEY);
}

/**
 * A record of hardware has the last removal only, so an earlier one of the same name is left with its key. A restore removes all machines
 * of the old cluster at one time: those in the backup by their keys, and those that the workspace knows also by their hardware.
 */
function isReplacedBy(former: RemovedMachine, later: RemovedMachine): boolean {
  return isKey(former) && !isKey(later) && later.name === former.name && later.removedMs >= former.removedMs;
}

/**
 * The removed machine with this name, node ID or identity. Where several match, those that an owner has not readmitted
 * are meant.
 * @throws NodesError `nodes-removed-unknown` unless exactly one machine matches
 */
export function findRemoved(removed: readonly RemovedMachine[], which: string): RemovedNode {
  const matching = removedNodesOf(removed).filter(({ records }) =>
    records.some((each) => isRemovalNamed(each, which)),
  );
  const [node, ...others] = preferred(
    preferred(matching, ({ isFormer }) => !isFormer),
    ({ main }) => !main.readmitted,
  );
  if (node === undefined || others.length > 0)
    throw new NodesError(
      'nodes-removed-unknown',
      node === undefined
        ? `removed machine ${JSON.stringify(which)} not found`
        : `${JSON.stringify(which)} matches ${others.length + 1} removed machines: ${[node, ...others].map(({ main }) => printable(main.identity)).join(', ')}`,
    );
  return node;
}

/** The nodes with this property, or all if none has it. */
function preferred(
  nodes: readonly RemovedNode[],
  has: (node: RemovedNode) => boolean,
): readonly RemovedNode[] {
  const found = nodes.filter(has);
  return found.length === 0 ? nodes : found;
}
