import type { ExitName } from '../../../internal/errors/index.ts';
import { deleteNodeObject } from '../../../internal/kube/index.ts';
import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import {
  callCurator,
  currentKubeAccess,
  newMutation,
  withCuratorRetries,
  withKubernetes,
} from '../../cluster/index.ts';
import { readCurrentConfiguration } from '../../configuration/index.ts';
import { awaitChecks, awaitCredentialsRefused, runRemovalProbe, type HeldKeys } from '../../keys/index.ts';
import { confirmLoss } from '../../loss/index.ts';
import { drainNode, lossesOfDrain, type DrainOptions } from '../drain.ts';
import { forgetMachine } from '../machine-pins.ts';
import { awaitRoleChange } from '../roles/await-role-change.ts';
import { unsafeChange } from '../roles/role-plan.ts';
import { readRolePlan } from '../roles/set-role.ts';
import {
  deleteNodeRecords,
  inventoryEntriesOf,
  requestDeletion,
  requireOwnerForInventory,
  type DeleteOptions,
} from './delete-node-records.ts';
import { lossesOfBackups } from './kept-backups.ts';
import { lossesOfRemoval } from './losses.ts';
import {
  completePendingRemoval,
  findRemovalTarget,
  isRecordDeleted,
  savePendingRemoval,
} from './pending-removals.ts';
import { confirmRemoval } from './readmit.ts';
import { checkRemoved } from './removal-checks.ts';
import { nextForMachine, renderRemovalResult, showRemovalPreview } from './render-removal.ts';
import {
  awaitKeyReplacement,
  heldGeneration,
  keysOnDisk,
  startKeyReplacement,
  type KeyReplacementOptions,
} from './replace-keys.ts';

/** Arguments of `cluster node remove`. */
export interface RemoveOptions {
  readonly dryRun: boolean;
  /** Whether the machine is lost, so that the removal cannot wait for its agent. */
  readonly isLost: boolean;
  /** The operator confirmed the loss with `--yes`. */
  readonly yes: boolean;
  readonly drain: DrainOptions;
  /** Whether the shared keys that the node held are replaced. */
  readonly keys: Pick<KeyReplacementOptions, 'keep' | 'wait'>;
}

/**
 * `cluster node remove`: drains the node, takes its roles, decommissions it and deletes its records. Then
 * checks that every part of the cluster has forgotten the node and refuses its credentials. After the loss of
 * a control plane, the shared keys are replaced.
 */
export async function runRemove(
  context: CommandContext,
  name: string,
  options: RemoveOptions,
): Promise<ExitName> {
  await currentKubeAccess(context); // fails here, before the first change, because the last steps need Kubernetes
  const { node, earlierRun } = await findRemovalTarget(context, name);
  const choice = { isLost: options.isLost, ...options.keys };
  const order = earlierRun?.order ?? 'none'; // an interrupted reset may have ordered the machine to reset itself
  if (isRecordDeleted(node)) {
    const steps = ['check again that every part of the cluster has forgotten it and refuses its credentials'];
    if (options.dryRun)
      return (
        showRemovalPreview(context, node, { done: 'removed', steps, losses: [], plan: undefined }),
        'ok'
      );
    await confirmRemoval(context, node.nodeId);
    return deleteAndReport(context, node, choice);
  }
  const preview = await planRemoval(context, node, options);
  if (options.dryRun) {
    showRemovalPreview(context, node, { done: 'removed', ...preview });
    return 'ok';
  }
  await requestDeletion(context, node);
  const { losses, plan } = preview;
  await confirmLoss(context, { doing: `removing node ${node.name}`, losses, yes: options.yes });
  await savePendingRemoval(context, { nodeId: node.nodeId, name: node.name, order });
  if (node.state === NodeState.UP) await drainAndTakeRoles(context, node, plan.voters.after, options);
  return deleteAndReport(context, node, choice);
}

/** @throws NodesError `nodes-change-unsafe`, `nodes-last-control-plane`; OwnerDocumentError */
async function planRemoval(context: CommandContext, node: Node, { isLost, keys, drain }: RemoveOptions) {
  const { name, health, state } = node;
  const plan = await readRolePlan(context, node, []);
  const refusals = state === NodeState.UP ? [...plan.refusals] : [];
  if (health !== NodeHealth.HEALTHY && state === NodeState.UP && !isLost)
    refusals.push('the node does not respond and cannot leave in order: use --lost if it will not come back');
  const entries = inventoryEntriesOf(node, await readCurrentConfiguration(context));
  await requireOwnerForInventory(context, node, { entries, isLost });
  if (refusals.length > 0) throw unsafeChange(`removing node ${name}`, plan, { why: refusals });
  const holdsKeys =
    heldGeneration(node, undefined) !== undefined && keysOnDisk(node, undefined, { isLost }) === 'left';
  const replacesKeys = holdsKeys && !keys.keep;
  const steps = [
    ...(isLost ? stepsOfLost(node) : plan.steps),
    'decommission it: every curator refuses its key',
    'delete its records: its machine is refused until an owner readmits it',
    ...entries.map((entry) => `delete ${entry.name} (${entry.identity}) from the inventory`),
    ...(replacesKeys ? ['replace the keys that it shared with the other control planes'] : []),
  ];
  const pods = state === NodeState.UP && !isLost ? await lossesOfDrain(context, name, drain) : [];
  const losses = [
    ...lossesOfRemoval(node, { kind: 'remove', isLost, replacesKeys }),
    ...(await lossesOfBackups(context, node)),
    ...pods,
  ];
  return { plan, steps, losses };
}

/** A machine that does not respond stops nothing and evicts nothing. */
function stepsOfLost({ roles }: Node): readonly string[] {
  return roles.includes(NodeRole.CONSENSUS_MEMBER) ? ['remove its etcd members'] : [];
}

async function deleteAndReport(
  context: CommandContext,
  node: Node,
  choice: KeyReplacementOptions,
): Promise<ExitName> {
  const { name, nodeId } = node;
  const { keys, lines, ...checked } = await deleteAndCheck(context, node, { ...choice, isReset: false });
  const next = nextForMachine(node, { isReset: false, isLost: choice.isLost });
  context.host.result({ node: name, nodeId, ...checked, keys, next }, () =>
    [`Node ${name} is removed.`, ...lines, '', ...next].join('\n'),
  );
  return keys === 'under-way' && choice.wait ? 'partial' : 'ok';
}

/**
 * Deletes the node, then repeats checks until every part of the cluster has forgotten the node and refuses
 * its credentials. Replaces the shared keys that a lost node held. `lines` describe the result for people.
 * @throws KeysError `keys-still-accepted`
 */
export async function deleteAndCheck(
  caller: CommandContext,
  node: Node,
  choice: KeyReplacementOptions & DeleteOptions,
) {
  const context = withCuratorRetries(caller);
  const { wait } = choice;
  const requested = await startKeyReplacement(context, node, choice);
  await deleteNode(context, node, choice);
  const removed = await awaitRemoved(context, node, requested.held);
  const keys = await awaitKeyReplacement(context, node, { requested, wait });
  await completePendingRemoval(context, node);
  const { held, outcome } = keys;
  const isReplacedNow = held?.isReplaced === true && requested.held?.isReplaced !== true;
  const probe = isReplacedNow ? await awaitCredentialsRefused(context, node, held) : removed.probe;
  const proofs = [...removed.checks, ...probe.proofs];
  const { sharedKeys } = probe;
  const lines = renderRemovalResult(context, { proofs, sharedKeys, keys });
  return { proofs, sharedKeys, keys: outcome, lines };
}

/** Evicts the pods, then takes the roles, so that the node leaves etcd while it still runs. */
export async function drainAndTakeRoles(
  caller: CommandContext,
  node: Node,
  votersAfter: number,
  options: Pick<RemoveOptions, 'isLost' | 'drain'>,
): Promise<void> {
  const context = withCuratorRetries(caller);
  const { name, nodeId, roles } = node;
  if (!options.isLost) await drainNode(context, name, options.drain);
  const mutation = newMutation();
  await callCurator(context, ({ curator }) => curator.setNodeRoles({ nodeId, roles: [], mutation }));
  // If the node has no roles, an interrupted run may have taken them from a control plane that is still
  // leaving etcd.
  if ((roles.length === 0 || roles.includes(NodeRole.CONSENSUS_MEMBER)) && !options.isLost)
    await awaitRoleChange(context, { name, voters: votersAfter, keys: 'deleted' });
}

/**
 * Decommissions the node and deletes its records and its Kubernetes Node, except what an interrupted run has
 * already done.
 */
async function deleteNode(context: CommandContext, node: Node, options: DeleteOptions): Promise<void> {
  const { name, nodeId, state } = node;
  await context.host.step('node-delete', `Deleting the records of ${name}`, async () => {
    const gone = { nodeId, state: NodeState.DECOMMISSIONED, mutation: newMutation() };
    if (state === NodeState.NEW || state === NodeState.STANDBY || state === NodeState.UP)
      await callCurator(context, ({ curator }) => curator.setNodeState(gone));
    if (!isRecordDeleted({ state })) await deleteNodeRecords(context, node, options);
    await forgetMachine(context, node, options);
    await withKubernetes(context, (client) => deleteNodeObject(client, name, context.signal));
  });
}

/**
 * Repeats the checks until all have passed. The removal probe comes last: curators refuse to run it while the
 * node is on record.
 */
async function awaitRemoved(context: CommandContext, node: Node, held: HeldKeys | undefined) {
  const { name, nodeId } = node;
  const step = { name: 'node-proofs', title: `Checking that ${name} is removed` };
  return awaitChecks(context, { step, doing: `removing node ${name} (${nodeId})` }, async () => {
    const checks = await checkRemoved(context, node);
    const isGone = checks.every(({ ok }) => ok);
    const probe = isGone ? await runRemovalProbe(context, nodeId, held) : { proofs: [], sharedKeys: [] };
    return { checks, probe, proofs: [...checks, ...probe.proofs] };
  });
}
