import { records } from '../../../internal/records/index.ts';
import {
  formatTaint,
  MAX_TAINTS,
  sortedTaints,
  taintIdOf,
  type Taint,
} from '../../../internal/role/index.ts';
import type { MutationPlan } from './mutations.ts';
import { unchangedView } from '../nodes/node-store.ts';
import { refuseField, taintsFromWire, type NodeView } from '../nodes/node-wire.ts';

/**
 * Sets and removes taints. They must follow the syntax of Kubernetes, and taints that are reserved for Kubernetes are
 * refused.
 */
export function planTaints(
  node: NodeView,
  change: { readonly set: readonly TaintChange[]; readonly remove: readonly TaintChange[] },
): MutationPlan {
  const { record } = node;
  const set = taintsFromWire(change.set);
  const isRemoved = (taint: Taint): boolean =>
    change.remove.some(({ key, effect }) => key === taint.key && (effect === '' || effect === taint.effect));
  const both = set.find(isRemoved);
  if (both !== undefined) refuseField('taints', `${taintIdOf(both)} is both set and removed`);
  const replaced = new Set(set.map(taintIdOf));
  const before = record.taints ?? [];
  const kept = before.filter((taint) => !isRemoved(taint) && !replaced.has(taintIdOf(taint)));
  const taints = sortedTaints([...kept, ...set]);
  if (taints.length > MAX_TAINTS) refuseField('taints', `expected at most ${MAX_TAINTS}`);
  const isSame = JSON.stringify(taints) === JSON.stringify(sortedTaints(before));
  // The record of a node without taints has no field `taints`, so that older releases can read the record.
  const { taints: _, ...others } = record;
  const changed = taints.length === 0 ? others : { ...others, taints: [...taints] };
  return {
    when: [unchangedView(node)],
    then: isSame ? [] : [records.node.put(records.node.key(record.nodeId), changed)],
    detail: {
      set: set.map(formatTaint),
      remove: change.remove.map(({ key, effect }) => (effect === '' ? key : `${key}:${effect}`)),
    },
  };
}

interface TaintChange {
  readonly key: string;
  readonly value: string;
  readonly effect: string;
}
