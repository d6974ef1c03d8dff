import { NodeRole, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { confirmLoss, renderLosses } from '../../loss/index.ts';
import { grantForNode } from '../../sign/index.ts';
import { drainNode, lossesOfDrain, type DrainOptions } from '../drain.ts';
import { lossesOfRoleChange } from '../removal/losses.ts';
import { awaitRoleChange, etcdMembersFrom } from './await-role-change.ts';
import { requireKnownMachine } from '../machine-pins.ts';
import { CORDONED_BY_SET_ROLE, awaitScheduling } from './await-scheduling.ts';
import { describeQuorum, ENDS_APPROVALS, planRoleChange, unsafeChange, type RolePlan } from './role-plan.ts';
import type { RoleName } from '../../../internal/role/index.ts';
import { rolesFromNames, namesFromRoles } from './role-names.ts';
import { saveKnownCurators, readCaller, callCurator, newMutation, findNode } from '../../cluster/index.ts';
import { AppError } from '../../app/errors.ts';

/** Arguments of `cluster node set-role`. */
export interface SetRoleOptions {
  readonly roles: readonly RoleName[];
  readonly dryRun: boolean;
  /** The operator confirmed the loss with `--yes`. */
  readonly yes: boolean;
  readonly drain: DrainOptions;
}

/**
 * `cluster node set-role`: changes the roles of a node in place, if that does not endanger the cluster.
 * `roles` are all roles that the node is to have.
 * @throws AppError `app-usage`, NodesError
 */
export async function runSetRole(
  context: CommandContext,
  name: string,
  options: SetRoleOptions,
): Promise<void> {
  if (options.roles.length === 0)
    throw new AppError('app-usage', `no role given for node ${name}`, {
      fix: 'Give all roles of the node: --control-plane, --worker, or both. `cluster node remove` removes a node.',
    });
  const node = await findNode(context, name);
  const wanted = rolesFromNames(options.roles);
  const plan = await readRolePlan(context, node, wanted);
  const losses = await lossesOf(context, { node, plan, options });
  const data = {
    node: node.name,
    losses,
    from: namesFromRoles(node.roles),
    to: options.roles,
    dryRun: options.dryRun,
    plan,
  };
  if (plan.refusals.length > 0)
    throw unsafeChange(`changing the roles of ${node.name}`, plan, { why: plan.refusals, details: data });
  // If the roles on record are already the wanted ones, an interrupted run may have set them: waits until
  // they take effect.
  const expected = {
    name: node.name,
    voters: plan.voters.after,
    controlPlane: wanted.includes(NodeRole.KUBERNETES_CONTROLLER) ? 'ready' : 'gone',
  } as const;
  const pods = { name: node.name, roles: options.roles, isWorkChanged: plan.isWorkChanged };
  if (plan.isNothing && !options.dryRun) {
    await awaitRoleChange(context, expected);
    await awaitScheduling(context, pods);
  }
  if (plan.isNothing || options.dryRun) {
    context.host.result(data, () => renderPlan(node.name, plan, losses));
    return;
  }
  if (wanted.includes(NodeRole.CONSENSUS_MEMBER)) await requireKnownMachine(context, name, node);
  // Before the first change: an operator may lack the signature of an owner.
  const documents = await grantForNode(context, node, wanted);
  await confirmLoss(context, { doing: `changing the roles of ${node.name}`, losses, yes: options.yes });
  if (plan.needsDrain)
    await drainNode(context, node.name, { ...options.drain, cordonedBy: CORDONED_BY_SET_ROLE });
  const mutation = newMutation();
  await callCurator(context, ({ curator }) =>
    curator.setNodeRoles({ nodeId: node.nodeId, roles: [...wanted], documents, mutation }),
  );
  await awaitRoleChange(context, expected);
  await awaitScheduling(context, pods);
  context.host.result(data, () =>
    [
      `Roles of node ${node.name}: ${options.roles.join(', ')}`,
      `  quorum  ${describeQuorum(plan)}`,
      ...(entersControlPlane(node, wanted) ? [`  disk    ${ENDS_APPROVALS}`] : []),
    ].join('\n'),
  );
}

function entersControlPlane({ roles }: Node, wanted: readonly NodeRole[]): boolean {
  return wanted.includes(NodeRole.CONSENSUS_MEMBER) && !roles.includes(NodeRole.CONSENSUS_MEMBER);
}

/** What the role change takes away on the node, and what its drain deletes for good. */
async function lossesOf(
  context: CommandContext,
  { node, plan, options }: { readonly node: Node; readonly plan: RolePlan; readonly options: SetRoleOptions },
): Promise<readonly string[]> {
  return [
    ...lossesOfRoleChange(node, options.roles),
    ...(plan.needsDrain ? await lossesOfDrain(context, node.name, options.drain) : []),
  ];
}

/** The plan of a role change in the current state of the cluster. */
export async function readRolePlan(
  context: CommandContext,
  node: Node,
  wanted: ReturnType<typeof rolesFromNames>,
): Promise<RolePlan> {
  const { nodes, info } = await callCurator(context, async ({ curator }) => {
    const [list, now] = await Promise.all([curator.listNodes({}), curator.getClusterInfo({})]);
    return { nodes: list.nodes, info: now };
  });
  // The only curator that this workspace knows may be on the node that leaves, so the current ones are saved
  // first.
  const { curatorsPath } = await readCaller(context);
  await saveKnownCurators(context.ports.files, curatorsPath, info);
  return planRoleChange({ node, wanted }, { nodes, etcd: etcdMembersFrom(info) });
}

function renderPlan(name: string, plan: RolePlan, losses: readonly string[]): string {
  if (plan.isNothing) return `Nothing to do: node ${name} already has these roles.`;
  return [
    `Roles of node ${name} would change. Nothing was changed.`,
    ...plan.steps.map((step, index) => `  ${index + 1}. ${step}`),
    `  quorum  ${describeQuorum(plan)}`,
    ...(losses.length === 0 ? [] : ['Consequences:', renderLosses(losses)]),
  ].join('\n');
}
