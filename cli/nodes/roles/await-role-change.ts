import { formatDuration } from '../../../internal/clock/index.ts';
import {
  NodeHealth,
  type GetClusterInfoResponse,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import type { EtcdMemberCounts } from '../../../internal/role/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import { controlPlaneComponents } from './control-plane-components.ts';
import { callCurator } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';

const POLL_MS = 1_000;
const SETTLE_MS = 10 * 60 * 1000;

/** What a node and etcd are to have become. */
export interface ExpectedRoleState {
  readonly name: string;
  readonly voters: number;
  /** Of Kubernetes on the node, by its own word; absent: the node may be unable to say anything. */
  readonly controlPlane?: 'ready' | 'gone';
}

/** The members of the state etcd, as a curator reports them. */
export function etcdMembersFrom({ etcd }: GetClusterInfoResponse): EtcdMemberCounts {
  const members = etcd?.members ?? [];
  return {
    hasLeader: etcd?.hasLeader ?? false,
    voters: members.filter(({ isLearner }) => !isLearner).length,
    learners: members.filter(({ isLearner }) => isLearner).length,
  };
}

/** What is not as it should be, and what was said last about it. */
interface Missing {
  readonly what: string;
  readonly why?: string;
}

/**
 * The processes follow the record: etcd shows when its members have, the node itself when its control plane has. Only looks,
 * so that it may be left and run again at any time.
 */
export async function awaitRoleChange(context: CommandContext, wanted: ExpectedRoleState): Promise<void> {
  const { clock } = context.ports;
  const { name } = wanted;
  await context.host.step('node-roles-follow', `Waiting for ${name} to follow`, async (progress) => {
    const startMs = clock.monotonicMs();
    let since = { what: '', ms: startMs };
    for (;;) {
      const missing = await look(context, wanted);
      if (missing === undefined) return;
      const { what, why } = missing;
      const nowMs = clock.monotonicMs();
      if (since.what !== what) since = { what, ms: nowMs };
      const text = `${what}, for ${formatDuration(nowMs - since.ms)}${why === undefined ? '' : `: ${why}`}`;
      progress.update(text);
      if (nowMs > startMs + SETTLE_MS)
        throw new NodesError(
          'nodes-role-change-timeout',
          `waiting for ${name} for ${SETTLE_MS / 1000} s: ${text}`,
        );
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

/** A control plane that comes or goes makes an answer fail now and then. */
async function look(context: CommandContext, wanted: ExpectedRoleState): Promise<Missing | undefined> {
  try {
    return await callCurator(context, async (curator, call) => {
      const info = await curator.getClusterInfo({}, call);
      const { nodes } = await curator.listNodes({}, call);
      const node = nodes.find(({ name }) => name === wanted.name);
      return missingOfEtcd(etcdMembersFrom(info), wanted.voters) ?? (node && missingOfNode(node, wanted));
    });
  } catch (error) {
    context.signal.throwIfAborted();
    return { what: 'asking the curators again', why: printable((error as Error).message) };
  }
}

function missingOfEtcd(now: EtcdMemberCounts, voters: number): Missing | undefined {
  if (now.voters !== voters || now.learners > 0)
    return { what: `etcd has ${now.voters} of ${voters} voters and ${now.learners} learning` };
  return now.hasLeader ? undefined : { what: 'etcd has no leader' };
}

function missingOfNode(node: Node, { name, controlPlane }: ExpectedRoleState): Missing | undefined {
  if (node.health !== NodeHealth.HEALTHY) return { what: `${name} does not beat` };
  if (controlPlane === undefined) return undefined;
  const parts = controlPlaneComponents(node);
  if (controlPlane === 'ready') {
    const part = parts.find(({ isReady }) => !isReady);
    return part && { what: `${part.name} of ${name} is not ready`, why: part.why };
  }
  return parts.some(({ isKnown }) => isKnown)
    ? { what: `${name} still takes its control plane of Kubernetes down` }
    : undefined;
}
