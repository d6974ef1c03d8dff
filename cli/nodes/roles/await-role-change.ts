import { formatDuration } from '../../../internal/clock/index.ts';
import {
  NodeHealth,
  type GetClusterInfoResponse,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import type { EtcdMemberCounts } from '../../../internal/role/index.ts';
import { counted, printable } from '../../../internal/printable/index.ts';
import { controlPlaneComponents } from './control-plane-components.ts';
import { callCurator, kubernetesEtcdOf } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';

const POLL_MS = 1_000;
const TIMEOUT_MS = 10 * 60 * 1000;

/** The state of a node and of etcd after a role change. */
export interface ExpectedRoleState {
  readonly name: string;
  readonly voters: number;
  /**
   * Expected state of the node's Kubernetes control plane according to its agent; absent if the agent may be
   * unable to report it.
   */
  readonly controlPlane?: 'ready' | 'gone';
  /** Whether its agent must report that it deleted the keys that control planes share. */
  readonly keys?: 'deleted';
}

/** The members of an etcd, as a curator reports them. */
export function etcdMembersFrom({ etcd }: Pick<GetClusterInfoResponse, 'etcd'>): EtcdMemberCounts {
  const members = etcd?.members ?? [];
  return {
    hasLeader: etcd?.hasLeader ?? false,
    voters: members.filter(({ isLearner }) => !isLearner).length,
    learners: members.filter(({ isLearner }) => isLearner).length,
  };
}

/** A difference from the expected state, and the reason for it if one is known. */
interface Missing {
  readonly what: string;
  readonly why?: string;
}

/**
 * Waits until the cluster runs what the roles on record require: the members of etcd, and the components that
 * the node reports. It only reads, so it may be interrupted and repeated.
 * @throws NodesError `nodes-role-change-timeout`
 */
export async function awaitRoleChange(context: CommandContext, wanted: ExpectedRoleState): Promise<void> {
  const { clock } = context.ports;
  const { name } = wanted;
  let since = { what: '', ms: clock.monotonicMs() };
  const step = { code: 'node-roles-follow', title: `Waiting for ${name} to change its roles`, name };
  await untilNothingMissing(context, step, async () => {
    const missing = await look(context, wanted);
    if (missing === undefined) return undefined;
    const { what, why } = missing;
    const nowMs = clock.monotonicMs();
    if (since.what !== what) since = { what, ms: nowMs };
    return `${what}, for ${formatDuration(nowMs - since.ms)}${why === undefined ? '' : `: ${why}`}`;
  });
}

/** Polls until `missing` returns undefined, and shows its text meanwhile. @throws NodesError `nodes-role-change-timeout` */
export async function untilNothingMissing(
  { host, ports: { clock }, signal }: CommandContext,
  { code, title, name }: { readonly code: string; readonly title: string; readonly name: string },
  missing: () => Promise<string | undefined>,
): Promise<void> {
  await host.step(code, title, async (progress) => {
    const deadlineMs = clock.monotonicMs() + TIMEOUT_MS;
    for (;;) {
      const text = await missing();
      if (text === undefined) return;
      progress.update(text);
      if (clock.monotonicMs() > deadlineMs)
        throw new NodesError(
          'nodes-role-change-timeout',
          `${name} has not changed its roles after ${formatDuration(TIMEOUT_MS)}: ${text}`,
        );
      await clock.sleep(POLL_MS, signal);
    }
  });
}

/** A call may fail while a control plane starts or stops. */
async function look(context: CommandContext, wanted: ExpectedRoleState): Promise<Missing | undefined> {
  try {
    return await callCurator(context, async ({ curator }) => {
      const info = await curator.getClusterInfo({});
      const { nodes } = await curator.listNodes({});
      const node = nodes.find(({ name }) => name === wanted.name);
      return (
        missingOfEtcd('state etcd', etcdMembersFrom(info), wanted.voters) ??
        missingOfReport(nodes, wanted.voters) ??
        (node && missingOfNode(node, wanted))
      );
    });
  } catch (error) {
    context.signal.throwIfAborted();
    return { what: 'no curator has answered', why: printable((error as Error).message) };
  }
}

/** The Kubernetes etcd as `cluster status` shows it. One without a leader is judged by `cluster doctor`, and may be the reason for the change. */
function missingOfReport(nodes: readonly Node[], voters: number): Missing | undefined {
  const now = etcdMembersFrom({ etcd: kubernetesEtcdOf(nodes) });
  return now.hasLeader ? missingOfEtcd('Kubernetes etcd', now, voters) : undefined;
}

function missingOfEtcd(etcd: string, now: EtcdMemberCounts, voters: number): Missing | undefined {
  if (now.voters !== voters || now.learners > 0) {
    const learners = now.learners === 0 ? '' : ` and ${counted(now.learners, 'learner')}`;
    return {
      what: `the ${etcd} has ${counted(now.voters, 'voter')}${learners}, expected ${counted(voters, 'voter')}`,
    };
  }
  return now.hasLeader ? undefined : { what: `the ${etcd} has no leader` };
}

function missingOfNode(node: Node, { name, controlPlane, keys }: ExpectedRoleState): Missing | undefined {
  if (node.health !== NodeHealth.HEALTHY) return { what: `${name} is not responding` };
  if (keys === 'deleted' && node.status?.holdsKeys === true)
    return { what: `${name} is still deleting the keys that control planes share` };
  if (controlPlane === undefined) return undefined;
  const components = controlPlaneComponents(node);
  if (controlPlane === 'ready') {
    const component = components.find(({ isReady }) => !isReady);
    return component && { what: `${component.name} of ${name} is not ready`, why: component.why };
  }
  return components.some(({ isKnown }) => isKnown)
    ? { what: `${name} is still stopping its Kubernetes control plane` }
    : undefined;
}
