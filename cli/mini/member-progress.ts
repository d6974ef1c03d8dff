import { formatDuration } from '../../internal/clock/index.ts';
import { NodeHealth, Runnable_State, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { MachineKind } from './machine-plan.ts';
import { JoinState, type Join } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { isPodReady, readinessOf, type KubeNode, type KubePod } from '../../internal/kube/index.ts';
import { podReason } from '../charts/index.ts';

/** State of the cluster; a part that could not be read is empty. */
export interface ClusterSnapshot {
  readonly joins: readonly Join[];
  readonly nodes: readonly Node[];
  readonly kubeNodes: readonly KubeNode[];
  /** The pods of API servers, controller managers and schedulers. */
  readonly controlPlanePods: readonly KubePod[];
  /** Why a part could not be read. */
  readonly unreachable?: string;
}

/** Progress of one machine that joins. */
export type MemberProgress =
  | { readonly kind: 'waiting'; readonly text: string }
  /** It waits for approval. */
  | { readonly kind: 'pending'; readonly text: string; readonly joinId: string }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'ready' };

/** Components of an agent in the order in which they start. */
const COMPONENTS = ['components', 'consensus', 'controlplane', 'balancer', 'kubernetes'] as const;

/**
 * Derives the progress of a machine from the records of the curator and of Kubernetes. `identity` is the
 * identity of its TPM, "tpm-ek:HEX".
 */
export function memberProgress(
  machine: { readonly name: string; readonly identity: string; readonly roles: readonly MachineKind[] },
  seen: ClusterSnapshot,
): MemberProgress {
  const node = seen.nodes.find(({ name }) => name === machine.name);
  const join = seen.joins.find(({ identity }) => identity === machine.identity);
  if (node !== undefined) return memberOf(node, seen, machine.roles.includes('control-plane'));
  if (join === undefined) return { kind: 'waiting', text: 'has not contacted the cluster yet' };
  switch (join.state) {
    case JoinState.PENDING:
      return {
        kind: 'pending',
        text: `waiting for approval: ${join.code} ${join.message}`.trim(),
        joinId: join.joinId,
      };
    case JoinState.APPROVED:
      return {
        kind: 'waiting',
        text: `admitted by ${join.decidedBy}; waiting until it may join: ${join.message || 'it is the next one'}`,
      };
    case JoinState.REFUSED:
      return { kind: 'refused', code: join.code, message: join.message };
    case JoinState.JOINED:
    case JoinState.UNSPECIFIED:
      return { kind: 'waiting', text: 'has received its certificate' };
  }
}

function memberOf(
  node: Node,
  { kubeNodes, controlPlanePods }: ClusterSnapshot,
  isControlPlane: boolean,
): MemberProgress {
  const kubelet = kubeNodes.find(({ metadata }) => metadata.name === node.name);
  const { ready, why } = kubelet === undefined ? { ready: false, why: '' } : readinessOf(kubelet);
  if (ready && node.health === NodeHealth.HEALTHY)
    return isControlPlane ? controlPlaneProgress(node.name, controlPlanePods) : { kind: 'ready' };
  if (ready) return { kind: 'waiting', text: 'kubelet is Ready; the agent has not reported yet' };
  return {
    kind: 'waiting',
    text: firstPendingComponent(node) ?? (why === '' ? 'has joined' : `kubelet: ${why}`),
  };
}

/** A kubelet is Ready before the probes of its pods have succeeded, and `cluster status` calls such pods a problem. */
function controlPlaneProgress(name: string, pods: readonly KubePod[]): MemberProgress {
  const own = pods.filter((pod) => pod.spec.nodeName === name);
  if (own.length === 0) return { kind: 'waiting', text: 'no pod of its control plane is listed yet' };
  const notReady = own.find((pod) => !isPodReady(pod));
  if (notReady === undefined) return { kind: 'ready' };
  return { kind: 'waiting', text: `pod ${notReady.metadata.name}: ${podReason(notReady)}` };
}

/** The first component of the agent that does not run, and the reason. */
function firstPendingComponent(node: Node): string | undefined {
  const runnables = node.status?.runnables ?? [];
  for (const component of COMPONENTS) {
    const found = runnables.filter(
      ({ path, state, idleBecause, lastError }) =>
        path.split('.').includes(component) &&
        (state === Runnable_State.NEW || state === Runnable_State.DEAD) &&
        !idleBecause.startsWith('idle:') &&
        (idleBecause !== '' || lastError !== undefined),
    );
    const deepest = found.at(-1);
    if (deepest === undefined) continue;
    const why = deepest.lastError?.message ?? '';
    return `${component}: ${[deepest.idleBecause, why].filter((text) => text !== '').join('; last error: ')}`;
  }
  return undefined;
}

/** Marks the progress as possibly outdated while part of the cluster cannot be read. */
export function withUnreachableNote(
  progress: MemberProgress,
  unreachable: string | undefined,
): MemberProgress {
  if (unreachable === undefined || progress.kind === 'ready' || progress.kind === 'refused') return progress;
  return { ...progress, text: `${progress.text} (last known state; cluster unreachable: ${unreachable})` };
}

/**
 * Describes the machines that are not Ready: "n2 waiting for approval: …; n4 has not contacted the cluster
 * yet (for 5m30s)".
 */
export function describeWaiting(waiting: ReadonlyMap<string, MemberProgress>, sinceMs: number): string {
  const parts = [...waiting].map(([name, progress]) =>
    progress.kind === 'waiting' || progress.kind === 'pending' ? `${name} ${progress.text}` : name,
  );
  return `${parts.join('; ')} (for ${formatDuration(sinceMs)})`;
}
