import { Curator, NodeRole, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { confirmLoss, renderLosses } from '../../loss/index.ts';
import { grantForNode } from '../../sign/index.ts';
import { drainNode, type DrainOptions } from '../drain.ts';
import { lossesOfRoleChange } from '../removal/losses.ts';
import { awaitRoleChange, etcdMembersFrom } from './await-role-change.ts';
import { CORDONED_BY_SET_ROLE, awaitScheduling } from './await-scheduling.ts';
import { describeQuorum, planRoleChange, type RolePlan } from './role-plan.ts';
import { rolesFromNames, namesFromRoles, type RoleName } from './role-names.ts';
import { saveKnownCurators, readCaller, callCurator, newMutation, findNode } from '../../cluster/index.ts';
import { NodesError } from '../errors.ts';
import { AppError } from '../../app/errors.ts';

export interface SetRoleOptions {
  readonly roles: readonly RoleName[];
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
    throw new AppError('app-usage', `changing the roles of ${name}: no role is named`, {
      fix: 'Name all roles that the node is to have: --control-plane, --worker, or both. `cluster node remove` takes a node out.',
    });
  const node = await findNode(context, name);
  const wanted = rolesFromNames(options.roles);
  const plan = await readRolePlan(context, node, wanted);
  const losses = lossesOfRoleChange(node, options.roles);
  const data = {
    node: node.name,
    losses,
    from: namesFromRoles(node.roles),
    to: options.roles,
    dryRun: options.dryRun,
    plan,
  };
  if (plan.refusals.length > 0)
    throw new NodesError(
      'nodes-change-unsafe',
      `changing the roles of ${node.name}: ${plan.refusals.join('; ')}`,
      {
        details: data,
      },
    );
  // An earlier run may have left before the node had followed.
  const follow = {
    name: node.name,
    voters: plan.voters.after,
    controlPlane: wanted.includes(NodeRole.KUBERNETES_CONTROLLER) ? 'ready' : 'gone',
  } as const;
  const pods = { name: node.name, roles: options.roles, isWorkChanged: plan.isWorkChanged };
  if (plan.isNothing && !options.dryRun) {
    await awaitRoleChange(context, follow);
    await awaitScheduling(context, pods);
  }
  if (plan.isNothing || options.dryRun) {
    context.host.result(data, () => renderPlan(node.name, plan, losses));
    return;
  }
  await confirmLoss(context, { doing: `changing the roles of ${node.name}`, losses, yes: options.yes });
  if (plan.needsDrain)
    await drainNode(context, node.name, { ...options.drain, cordonedBy: CORDONED_BY_SET_ROLE });
  const mutation = newMutation();
  const documents = await grantForNode(context, node, wanted);
  await callCurator(context, (curator, call) =>
    curator.setNodeRoles({ nodeId: node.nodeId, roles: [...wanted], documents, mutation }, call),
  );
  await awaitRoleChange(context, follow);
  await awaitScheduling(context, pods);
  context.host.result(data, () =>
    [`Node ${node.name} is ${options.roles.join(' and ')}.`, `  quorum  ${describeQuorum(plan)}`].join('\n'),
  );
}

/** The plan as things are now; pure from here on. */
export async function readRolePlan(
  context: CommandContext,
  node: Node,
  wanted: ReturnType<typeof rolesFromNames>,
): Promise<RolePlan> {
  const { nodes, info } = await callCurator(context, async (_, call, of) => {
    const curator = of(Curator);
    const [list, now] = await Promise.all([curator.listNodes({}, call), curator.getClusterInfo({}, call)]);
    return { nodes: list.nodes, info: now };
  });
  // The one that is known may be the one that goes.
  const { curatorsPath } = await readCaller(context);
  await saveKnownCurators(context.ports.files, curatorsPath, info.directory);
  return planRoleChange({ node, wanted }, { nodes, etcd: etcdMembersFrom(info) });
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
