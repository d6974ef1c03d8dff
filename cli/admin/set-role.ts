import {
  Curator,
  NodeHealth,
  type GetClusterInfoResponse,
  type Node,
} from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { keepKnownCurators, printable, readMember } from '../cluster/index.ts';
import { ask, newMutation, nodeNamed } from './desk.ts';
import { drainNode, type DrainOptions } from './drain.ts';
import { AdminError } from './errors.ts';
import { FOR_ROLES, followWithPods } from './role-pods.ts';
import { describeQuorum, planRoleChange, type ConsensusView, type RolePlan } from './role-plan.ts';
import { rolesFromWords, wordsFromRoles, type RoleWord } from './roles.ts';

const POLL_MS = 1_000;
const SETTLE_MS = 10 * 60 * 1000;

export interface SetRoleOptions {
  readonly roles: readonly RoleWord[];
  readonly dryRun: boolean;
  readonly drain: DrainOptions;
}

/** `cluster node set-role`: the whole set of roles from now on, in place, and only if the cluster stays whole. */
export async function runSetRole(
  context: CommandContext,
  name: string,
  options: SetRoleOptions,
): Promise<void> {
  const node = await nodeNamed(context, name);
  const wanted = rolesFromWords(options.roles);
  const plan = await planNow(context, node, wanted);
  const data = {
    node: node.name,
    from: wordsFromRoles(node.roles),
    to: options.roles,
    dryRun: options.dryRun,
    plan,
  };
  if (plan.refusals.length > 0)
    throw new AdminError('manage-guard', `changing the roles of ${node.name}: ${plan.refusals.join('; ')}`, {
      details: data,
    });
  // An earlier run may have left before the node had followed.
  const pods = { name: node.name, roles: options.roles, isWorkChanged: plan.isWorkChanged };
  if (plan.isNothing && !options.dryRun) {
    await awaitVoters(context, node.name, plan.voters.after);
    await followWithPods(context, pods);
  }
  if (plan.isNothing || options.dryRun) {
    context.host.result(data, () => renderPlan(node.name, plan));
    return;
  }
  if (plan.needsDrain) await drainNode(context, node.name, { ...options.drain, cordonedBy: FOR_ROLES });
  const mutation = newMutation();
  await ask(context, (curator, call) =>
    curator.setNodeRoles({ nodeId: node.nodeId, roles: [...wanted], mutation }, call),
  );
  await awaitVoters(context, node.name, plan.voters.after);
  await followWithPods(context, pods);
  context.host.result(data, () =>
    [`Node ${node.name} is ${options.roles.join(' and ')}.`, `  quorum  ${describeQuorum(plan)}`].join('\n'),
  );
}

/** The plan as things are now; pure from here on. */
export async function planNow(
  context: CommandContext,
  node: Node,
  wanted: ReturnType<typeof rolesFromWords>,
): Promise<RolePlan> {
  const { nodes, info } = await ask(context, async (_, call, of) => {
    const curator = of(Curator);
    const [list, now] = await Promise.all([curator.listNodes({}, call), curator.getClusterInfo({}, call)]);
    return { nodes: list.nodes, info: now };
  });
  // The one that is known may be the one that goes.
  const { curatorsPath } = await readMember(context);
  await keepKnownCurators(context.ports.files, curatorsPath, info.directory);
  return planRoleChange({ node, wanted }, { nodes, consensus: consensusFrom(info) });
}

function consensusFrom({ etcd }: GetClusterInfoResponse): ConsensusView {
  const members = etcd?.members ?? [];
  return {
    hasLeader: etcd?.hasLeader ?? false,
    voters: members.filter(({ isLearner }) => !isLearner).length,
    learners: members.filter(({ isLearner }) => isLearner).length,
  };
}

/** The processes follow the record; etcd shows when they have. */
export async function awaitVoters(context: CommandContext, name: string, voters: number): Promise<void> {
  const { clock } = context.ports;
  await context.host.step('node-roles-follow', `Waiting for ${name} to follow`, async (progress) => {
    const deadlineMs = clock.monotonicMs() + SETTLE_MS;
    for (;;) {
      const text = await lookAtVoters(context, name, voters);
      if (text === undefined) return;
      progress.update(text);
      if (clock.monotonicMs() > deadlineMs)
        throw new AdminError('manage-not-followed', `waiting for ${name} for ${SETTLE_MS / 1000} s: ${text}`);
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

/** What is still missing; a control plane that comes or goes makes an answer fail now and then. */
async function lookAtVoters(
  context: CommandContext,
  name: string,
  voters: number,
): Promise<string | undefined> {
  try {
    return await ask(context, async (curator, call) => {
      const info = await curator.getClusterInfo({}, call);
      const now = consensusFrom(info);
      const { nodes } = await curator.listNodes({}, call);
      const node = nodes.find((each) => each.name === name);
      if (now.voters !== voters || now.learners > 0)
        return `etcd has ${now.voters} of ${voters} voters and ${now.learners} learning`;
      if (!now.hasLeader) return 'etcd has no leader';
      return node === undefined || node.health === NodeHealth.HEALTHY ? undefined : `${name} does not beat`;
    });
  } catch (error) {
    context.signal.throwIfAborted();
    return printable(`asking again: ${(error as Error).message}`);
  }
}

function renderPlan(name: string, plan: RolePlan): string {
  if (plan.isNothing) return `Node ${name} has these roles already; nothing is to be done.`;
  return [
    `Node ${name} would change; nothing was done.`,
    ...plan.steps.map((step, index) => `  ${index + 1}. ${step}`),
    `  quorum  ${describeQuorum(plan)}`,
  ].join('\n');
}
