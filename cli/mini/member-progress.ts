import { formatDuration } from '../../internal/clock/index.ts';
import { NodeHealth, Runnable_State, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { JoinState, type Join } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { readinessOf, type KubeNode } from '../../internal/kube/index.ts';

/** What the cluster says now; a part that could not be asked is empty. */
export interface ClusterSnapshot {
  readonly joins: readonly Join[];
  readonly nodes: readonly Node[];
  readonly kubeNodes: readonly KubeNode[];
  /** Why a part could not be asked. */
  readonly unreachable?: string;
}

/** Where one machine stands on its way in. */
export type MemberProgress =
  | { readonly kind: 'waiting'; readonly text: string }
  /** It asked and nobody has decided. */
  | { readonly kind: 'pending'; readonly text: string; readonly joinId: string }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'ready' };

/** Which parts of an agent come up one after the other, in this order. */
const PARTS = ['components', 'consensus', 'controlplane', 'balancer', 'kubernetes'] as const;

/** From what the curator and Kubernetes know of a machine; `identity` is its TPM's. */
export function memberProgress(
  machine: { readonly name: string; readonly identity: string },
  seen: ClusterSnapshot,
): MemberProgress {
  const node = seen.nodes.find(({ name }) => name === machine.name);
  const join = seen.joins.find(({ identity }) => identity === machine.identity);
  if (node !== undefined) return memberOf(node, seen);
  if (join === undefined) return { kind: 'waiting', text: 'has not asked the cluster yet' };
  switch (join.state) {
    case JoinState.PENDING:
      return { kind: 'pending', text: `waits: ${join.code} ${join.message}`.trim(), joinId: join.joinId };
    case JoinState.APPROVED:
      return { kind: 'waiting', text: `admitted by ${join.decidedBy}; its turn: ${join.message || 'soon'}` };
    case JoinState.REFUSED:
      return { kind: 'refused', code: join.code, message: join.message };
    case JoinState.JOINED:
    case JoinState.UNSPECIFIED:
      return { kind: 'waiting', text: 'has its certificate' };
  }
}

function memberOf(node: Node, { kubeNodes }: ClusterSnapshot): MemberProgress {
  const kubelet = kubeNodes.find(({ metadata }) => metadata.name === node.name);
  const { ready, why } = kubelet === undefined ? { ready: false, why: '' } : readinessOf(kubelet);
  if (ready && node.health === NodeHealth.HEALTHY) return { kind: 'ready' };
  if (ready) return { kind: 'waiting', text: 'its kubelet is Ready; the curator has not heard it yet' };
  return { kind: 'waiting', text: slowestPart(node) ?? (why === '' ? 'is a member' : `kubelet: ${why}`) };
}

/** The first part of its agent that is not up, with what it waits for. */
function slowestPart(node: Node): string | undefined {
  const runnables = node.status?.runnables ?? [];
  for (const part of PARTS) {
    const found = runnables.filter(
      ({ path, state, idleBecause, lastError }) =>
        path.split('.').includes(part) &&
        (state === Runnable_State.NEW || state === Runnable_State.DEAD) &&
        !idleBecause.startsWith('idle:') &&
        (idleBecause !== '' || lastError !== undefined),
    );
    const deepest = found.at(-1);
    if (deepest === undefined) continue;
    const why = deepest.lastError?.message ?? '';
    return `${part}: ${[deepest.idleBecause, why].filter((text) => text !== '').join(' – last: ')}`;
  }
  return undefined;
}

/** What is shown while part of the cluster cannot be asked: what is not known then must not pass for news. */
export function withUnreachableNote(progress: MemberProgress, silence: string | undefined): MemberProgress {
  if (silence === undefined || progress.kind === 'ready' || progress.kind === 'refused') return progress;
  return { ...progress, text: `${progress.text}, as far as is known; asking the cluster failed: ${silence}` };
}

/** "n2: admitted …, n4: has not asked …" */
export function describeWaiting(waiting: ReadonlyMap<string, MemberProgress>, sinceMs: number): string {
  const parts = [...waiting].map(([name, progress]) =>
    progress.kind === 'waiting' || progress.kind === 'pending' ? `${name} ${progress.text}` : name,
  );
  return `${parts.join('; ')} (for ${formatDuration(sinceMs)})`;
}
