import { Curator, NodeRole, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { keepKnownCurators, readMember } from '../cluster/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { grantForNode } from '../sign/index.ts';
import { ask, newMutation, nodeNamed } from './desk.ts';
import { drainNode, type DrainOptions } from './drain.ts';
import { AdminError } from './errors.ts';
import { lossesOfRoles } from './losses.ts';
import { awaitFollowed, consensusFrom } from './role-follow.ts';
import { FOR_ROLES, followWithPods } from './role-pods.ts';
import { describeQuorum, planRoleChange, type RolePlan } from './role-plan.ts';
import { rolesFromWords, wordsFromRoles, type RoleWord } from './roles.ts';

export interface SetRoleOptions {
  readonly roles: readonly RoleWord[];
  readonly dryRun: boolean;
  /** The operator agrees to the loss without being asked. */
  readonly yes: boolean;
  readonly drain: DrainOptions;
}

/** `cluster node set-role`: the whole set of roles from now on, in place, and only if the cluster stays whole. */
export async function runSetRole(
  context: CommandContext,
  name: string,
  options: SetRoleOptions,
): Promise<void> {
  if (options.roles.length === 0)
    throw new AdminError('manage-flag-invalid', `changing the roles of ${name}: no role is named`, {
      fix: 'Name all roles that the node is to have: --control-plane, --worker, or both. `cluster node remove` takes a node out.',
    });
  const node = await nodeNamed(context, name);
  const wanted = rolesFromWords(options.roles);
  const plan = await planNow(context, node, wanted);
  const losses = lossesOfRoles(node, options.roles);
  const data = {
    node: node.name,
    losses,
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
  const follow = {
    name: node.name,
    voters: plan.voters.after,
    controlPlane: wanted.includes(NodeRole.KUBERNETES_CONTROLLER) ? 'ready' : 'gone',
  } as const;
  const pods = { name: node.name, roles: options.roles, isWorkChanged: plan.isWorkChanged };
  if (plan.isNothing && !options.dryRun) {
    await awaitFollowed(context, follow);
    await followWithPods(context, pods);
  }
  if (plan.isNothing || options.dryRun) {
    context.host.result(data, () => renderPlan(node.name, plan, losses));
    return;
  }
  await confirmLoss(context, { doing: `changing the roles of ${node.name}`, losses, yes: options.yes });
  if (plan.needsDrain) await drainNode(context, node.name, { ...options.drain, cordonedBy: FOR_ROLES });
  const mutation = newMutation();
  const documents = await grantForNode(context, node, wanted);
  await ask(context, (curator, call) =>
    curator.setNodeRoles({ nodeId: node.nodeId, roles: [...wanted], documents, mutation }, call),
  );
  await awaitFollowed(context, follow);
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

function renderPlan(name: string, plan: RolePlan, losses: readonly string[]): string {
  if (plan.isNothing) return `Node ${name} has these roles already; nothing is to be done.`;
  return [
    `Node ${name} would change; nothing was done.`,
    ...plan.steps.map((step, index) => `  ${index + 1}. ${step}`),
    `  quorum  ${describeQuorum(plan)}`,
    ...(losses.length === 0 ? [] : ['This takes away:', renderLosses(losses)]),
  ].join('\n');
}
