import {
  NodeHealth,
  NodeRole,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { ExitName } from '../../../internal/errors/index.ts';
import { deleteNodeObject } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { formatTable } from '../../host/index.ts';
import { confirmLoss, renderLosses } from '../../loss/index.ts';
import { drainNode, type DrainOptions } from '../drain.ts';
import {
  inventoryEntriesOf,
  deleteNodeRecords,
  requireOwnerForInventory,
  type DeleteOptions,
} from './delete-node-records.ts';
import {
  completePendingRemoval,
  isRecordDeleted,
  savePendingRemoval,
  findRemovalTarget,
} from './pending-removals.ts';
import { lossesOfRemoval } from './losses.ts';
import {
  startKeyReplacement,
  awaitKeyReplacement,
  heldGeneration,
  type KeyReplacementOptions,
  type KeyReplacement,
} from './replace-keys.ts';
import { checkRemoved } from './removal-checks.ts';
import { awaitRoleChange } from '../roles/await-role-change.ts';
import { describeQuorum } from '../roles/role-plan.ts';
import { readRolePlan } from '../roles/set-role.ts';
import { currentKubeAccess, callCurator, newMutation, withKubernetes } from '../../cluster/index.ts';
import { readCurrentConfiguration } from '../../configuration/index.ts';
import {
  type RemovalCheck,
  REFUSAL_TIMEOUT_MS,
  awaitCredentialsRefused,
  probeCredentials,
  type HeldKeys,
  type ProbeResults,
  describeSharedKeys,
  KeysError,
} from '../../keys/index.ts';
import { NodesError } from '../errors.ts';

const POLL_MS = 1_000;

export interface RemoveOptions {
  readonly dryRun: boolean;
  /** The machine is gone: nothing of it can be asked to go in order. */
  readonly isLost: boolean;
  /** The operator agrees to the loss without being asked. */
  readonly yes: boolean;
  readonly drain: DrainOptions;
  /** What becomes of the keys that all control planes share, where it held them. */
  readonly keys: Pick<KeyReplacementOptions, 'keep' | 'wait'>;
}

/**
 * `cluster node remove`: workloads away, roles away, decommissioned, deleted; and then it is asked whether it is gone,
 * until everything says so. Of a machine that was lost with keys that all control planes share, those are replaced.
 */
export async function runRemove(
  context: CommandContext,
  name: string,
  options: RemoveOptions,
): Promise<ExitName> {
  await currentKubeAccess(context); // before anything is taken away: the end of it needs Kubernetes
  const { node } = await findRemovalTarget(context, name);
  const choice = { isLost: options.isLost, ...options.keys };
  if (isRecordDeleted(node)) {
    const known = await startKeyReplacement(context, node, choice);
    await deleteNode(context, node, { isReset: false });
    return tellRemoval(context, node, { choice, fate: known });
  }
  const plan = await readRolePlan(context, node, []);
  const refusals = plan.refusals.filter(() => node.state === NodeState.UP);
  if (node.health !== NodeHealth.HEALTHY && node.state === NodeState.UP && !options.isLost)
    refusals.push(`it is not healthy and could not leave in order; say --lost if it will not come back`);
  const entries = inventoryEntriesOf(node, await readCurrentConfiguration(context));
  await requireOwnerForInventory(context, node, { entries, isLost: options.isLost });
  if (refusals.length > 0)
    throw new NodesError('nodes-change-unsafe', `removing node ${node.name}: ${refusals.join('; ')}`);
  const loss = { kind: 'remove', isLost: options.isLost, replacesKeys: replacesKeys(node, choice) } as const;
  const losses = lossesOfRemoval(node, loss);
  if (options.dryRun) {
    const steps = [
      ...plan.steps,
      'decommission it: every curator refuses its key',
      'delete its records; its machine is refused from then on until an owner readmits it',
      ...entries.map(({ name: entry, identity }) => `take ${entry} (${identity}) out of the inventory`),
      ...(replacesKeys(node, choice) ? ['have the keys replaced that it shared with control planes'] : []),
    ];
    context.host.result({ node: node.name, dryRun: true, steps, losses, plan }, () =>
      [
        `Node ${node.name} would be removed; nothing was done.`,
        ...steps.map((step, index) => `  ${index + 1}. ${step}`),
        `  quorum  ${describeQuorum(plan)}`,
        'This takes away:',
        renderLosses(losses),
      ].join('\n'),
    );
    return 'ok';
  }
  await confirmLoss(context, { doing: `removing node ${node.name}`, losses, yes: options.yes });
  if (node.state === NodeState.UP) await drainAndTakeRoles(context, node, plan.voters.after, options);
  const fate = await startKeyReplacement(context, node, choice);
  await savePendingRemoval(context, { nodeId: node.nodeId, name: node.name, order: 'none' });
  await deleteNode(context, node, { isReset: false });
  return tellRemoval(context, node, { choice, fate });
}

async function tellRemoval(
  context: CommandContext,
  node: Node,
  { choice, fate: before }: { readonly choice: KeyReplacementOptions; readonly fate: KeyReplacement },
): Promise<ExitName> {
  const { traces, tried: first } = await awaitRemoved(context, node, before.held);
  const { outcome, held } = await awaitKeyReplacement(context, node, { fate: before, wait: choice.wait });
  await completePendingRemoval(context, node);
  const isNews = held?.isReplaced === true && before.held?.isReplaced !== true;
  const tried = isNews ? await awaitCredentialsRefused(context, node, held) : first;
  const proofs = [...traces, ...tried.proofs];
  const { sharedKeys } = tried;
  context.host.result({ node: node.name, nodeId: node.nodeId, proofs, sharedKeys, keys: outcome }, () =>
    [
      `Node ${node.name} is removed.`,
      formatTable(
        ['CHECKED', 'RESULT'],
        proofs.map(({ what, actual }) => [what, actual]),
      ),
      ...describeSharedKeys(sharedKeys, { isLost: choice.isLost, outcome, generation: held?.generation }),
    ].join('\n'),
  );
  return outcome === 'under-way' && choice.wait ? 'partial' : 'ok';
}

function replacesKeys(node: Node, { isLost, keep }: KeyReplacementOptions): boolean {
  return isLost && !keep && heldGeneration(node, undefined) !== undefined;
}

/** In the order that harms nobody: pods, then roles, so that etcd loses a member that leaves by itself. */
export async function drainAndTakeRoles(
  context: CommandContext,
  node: Node,
  votersAfter: number,
  options: Pick<RemoveOptions, 'isLost' | 'drain'>,
): Promise<void> {
  const { name, nodeId, roles } = node;
  if (!options.isLost) await drainNode(context, name, options.drain);
  const mutation = newMutation();
  await callCurator(context, (curator, call) => curator.setNodeRoles({ nodeId, roles: [], mutation }, call));
  // Without any roles it may have been one when an earlier run was interrupted.
  if ((roles.length === 0 || roles.includes(NodeRole.CONSENSUS_MEMBER)) && !options.isLost)
    await awaitRoleChange(context, { name, voters: votersAfter });
}

export async function deleteNode(context: CommandContext, node: Node, options: DeleteOptions): Promise<void> {
  const { name, nodeId, state } = node;
  await context.host.step('node-strike', `Striking ${name} off the records`, async () => {
    const gone = { nodeId, state: NodeState.DECOMMISSIONED, mutation: newMutation() };
    if (state === NodeState.NEW || state === NodeState.STANDBY || state === NodeState.UP)
      await callCurator(context, (curator, call) => curator.setNodeState(gone, call));
    if (!isRecordDeleted({ state })) await deleteNodeRecords(context, node, options);
    await withKubernetes(context, (client) => deleteNodeObject(client, name, context.signal));
  });
}

/** That a node is gone, and what came of showing papers in its name. */
export interface ProvedRemoval {
  readonly traces: readonly RemovalCheck[];
  readonly tried: ProbeResults;
}

/** Until everything says so. Papers are tried last: while a record is there, nobody may show them. */
export async function awaitRemoved(
  context: CommandContext,
  node: Node,
  held: HeldKeys | undefined,
): Promise<ProvedRemoval> {
  const { clock } = context.ports;
  return context.host.step('node-proofs', `Asking whether ${node.name} is gone`, async (progress) => {
    const deadlineMs = clock.monotonicMs() + REFUSAL_TIMEOUT_MS;
    for (;;) {
      const traces = await checkRemoved(context, node);
      const tried = traces.every(({ ok }) => ok)
        ? await probeCredentials(context, node.nodeId, held)
        : NOT_TRIED;
      const proofs = [...traces, ...tried.proofs];
      const open = proofs.filter(({ ok }) => !ok);
      if (open.length === 0) return { traces, tried };
      const text = open.map(({ what, actual }) => `${what}: ${actual}`).join('; ');
      progress.update(text);
      if (clock.monotonicMs() > deadlineMs)
        throw new KeysError('keys-still-accepted', `removing node ${node.name} (${node.nodeId}): ${text}`, {
          details: { proofs },
        });
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

const NOT_TRIED = { proofs: [], sharedKeys: [] } as const;
