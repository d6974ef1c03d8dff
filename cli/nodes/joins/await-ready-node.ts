import { formatDuration } from '../../../internal/clock/index.ts';
import { CodedError, findCoded } from '../../../internal/errors/index.ts';
import { listNodes, readinessOf } from '../../../internal/kube/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { JoinState, type Join } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { callCurator, withKubernetes } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';
import { controlPlaneComponents } from '../roles/control-plane-components.ts';
import { missingPod } from '../roles/missing-pods.ts';

const POLL_MS = 1_000;
const NO_KUBECONFIG = 'cluster-no-kubeconfig';

/** What an approved machine still lacks, and the last recorded error that explains it; '' without an error. */
interface Missing {
  readonly what: string;
  readonly why: string;
}

/** The machine that was approved: its join ID, which is also its node ID, and its name. */
export interface ApprovedMachine {
  readonly joinId: string;
  readonly name: string;
}

/** What Kubernetes said about the node: `unasked` without a kubeconfig. */
export type ReadyNode = 'ready' | 'unasked';

/**
 * Waits until an approved machine is a member that responds, its control plane runs, and its kubelet is Ready. It only reads, so
 * it may be interrupted and repeated. Errors that may pass are shown and do not end the wait.
 * @throws NodesError `nodes-approve-timeout`, with what is missing, since when and the last error; `nodes-join-refused`
 */
export async function awaitReadyNode(
  context: CommandContext,
  machine: ApprovedMachine,
  timeoutMs: number,
): Promise<ReadyNode> {
  const { host, signal } = context;
  const { clock } = context.ports;
  const title = `Waiting for ${machine.name} to be ready`;
  return host.step('node-approve-wait', title, async (progress) => {
    const startedMs = clock.monotonicMs();
    let since = { what: '', ms: startedMs };
    for (;;) {
      const missing = await look(context, machine);
      if (typeof missing === 'string') return missing;
      const nowMs = clock.monotonicMs();
      if (since.what !== missing.what) since = { what: missing.what, ms: nowMs };
      const text = describeMissing(missing, nowMs - since.ms);
      progress.update(text);
      if (nowMs - startedMs >= timeoutMs)
        throw new NodesError(
          'nodes-approve-timeout',
          `waiting ${formatDuration(timeoutMs)} for node ${machine.name}: ${text}`,
        );
      await clock.sleep(POLL_MS, signal);
    }
  });
}

function describeMissing({ what, why }: Missing, forMs: number): string {
  return `${what}, for ${formatDuration(forMs)}${why === '' ? '' : `; last error: ${why}`}`;
}

/** A call may fail while control planes start or change. */
async function look(context: CommandContext, machine: ApprovedMachine): Promise<Missing | ReadyNode> {
  try {
    return (await missingOfMember(context, machine)) ?? (await missingOfKubelet(context, machine));
  } catch (error) {
    context.signal.throwIfAborted();
    if (!(error instanceof CodedError) || findCoded(error)?.retryable !== true) throw error;
    return { what: 'the cluster does not answer', why: printable(error.message) };
  }
}

async function missingOfMember(
  context: CommandContext,
  { joinId, name }: ApprovedMachine,
): Promise<Missing | undefined> {
  const { joins, nodes, learners } = await callCurator(context, async ({ curator, operatorApi }) => {
    const [asked, listed, info] = await Promise.all([
      operatorApi.listJoins({}),
      curator.listNodes({}),
      curator.getClusterInfo({}),
    ]);
    const members = info.etcd?.members ?? [];
    return { joins: asked.joins, nodes: listed.nodes, learners: members.filter((each) => each.isLearner) };
  });
  const node = nodes.find((each) => each.nodeId === joinId);
  if (node === undefined)
    return missingOfJoin(
      joins.find((each) => each.joinId === joinId),
      name,
    );
  const missing = missingOfNode(node);
  if (missing !== undefined || !node.roles.includes(NodeRole.CONSENSUS_MEMBER)) return missing;
  return learners.length === 0
    ? undefined
    : { what: 'etcd has a learner that does not vote yet', why: reportedError(node) };
}

function missingOfJoin(join: Join | undefined, name: string): Missing {
  if (join === undefined) return { what: 'the machine has no join request', why: '' };
  const why = printable(join.code === '' ? '' : `${join.code} ${join.message}`.trimEnd());
  if (join.state === JoinState.REFUSED)
    throw new NodesError('nodes-join-refused', `machine ${name} was refused: ${why}`);
  const { queue } = join;
  if (queue !== undefined && queue.position > 0)
    return { what: `the machine has position ${queue.position} among joining control planes`, why };
  return { what: 'the machine has not requested its ticket', why };
}

function missingOfNode(node: Node): Missing | undefined {
  const why = reportedError(node);
  if (node.state !== NodeState.UP) return { what: 'the node is not a member yet', why };
  if (node.health !== NodeHealth.HEALTHY) return { what: 'the agent of the node does not respond', why };
  if (!node.roles.includes(NodeRole.KUBERNETES_CONTROLLER)) return undefined;
  const component = controlPlaneComponents(node).find(({ isReady }) => !isReady);
  return component && { what: `${component.name} is not ready`, why: component.why || why };
}

/** The error that the agent of the node reports: its most severe one, or the first one of its parts. */
function reportedError({ status }: Node): string {
  const error =
    status?.lastError ?? status?.runnables.find(({ lastError }) => lastError !== undefined)?.lastError;
  return error === undefined ? '' : printable(`${error.code}: ${error.message}`);
}

async function missingOfKubelet(
  context: CommandContext,
  { name }: ApprovedMachine,
): Promise<Missing | ReadyNode> {
  try {
    return await withKubernetes(context, async (client) => {
      const node = (await listNodes(client, context.signal)).find((each) => each.metadata.name === name);
      if (node === undefined) return { what: 'its kubelet has not registered', why: '' };
      const { ready, why } = readinessOf(node);
      if (!ready) return { what: 'its kubelet is not ready', why };
      const pod = await missingPod(client, name, context.signal);
      return pod === undefined ? 'ready' : { what: pod, why: '' };
    });
  } catch (error) {
    context.signal.throwIfAborted();
    if (error instanceof CodedError && error.code === NO_KUBECONFIG) return 'unasked';
    throw error;
  }
}
