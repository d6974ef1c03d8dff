import { NodeHealth, NodeState, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { NodeStreams } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { resetStatement, signEd25519, type OwnerVoucher } from '../../../internal/crypto/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { formatTable } from '../../host/index.ts';
import { confirmLoss, renderLosses } from '../../loss/index.ts';
import type { DrainOptions } from '../drain.ts';
import {
  completePendingRemoval,
  isRecordDeleted,
  savePendingRemoval,
  findRemovalTarget,
  type RemovalTarget,
} from './pending-removals.ts';
import { lossesOfRemoval } from './losses.ts';
import { awaitRemoved, deleteNode, drainAndTakeRoles } from './node-remove.ts';
import { startKeyReplacement } from './replace-keys.ts';
import { describeQuorum, type RolePlan } from '../roles/role-plan.ts';
import { readRolePlan } from '../roles/set-role.ts';
import { currentKubeAccess, readCaller, callCurator } from '../../cluster/index.ts';
import { readCallingOwner } from '../../operators/index.ts';
import { describeSharedKeys } from '../../keys/index.ts';
import { NodesError } from '../errors.ts';

const ORDER_MS = 30_000;

export interface ResetOptions {
  readonly dryRun: boolean;
  /** The operator agrees to the loss without being asked. */
  readonly yes: boolean;
  readonly drain: DrainOptions;
}

/**
 * `cluster node reset`: the node leaves in order, gets the owner's signed order, and is struck off. The machine makes
 * itself fresh and may ask to join again, as a new node.
 */
export async function runReset(context: CommandContext, name: string, options: ResetOptions): Promise<void> {
  const sign = await ownersHand(context); // before the node is emptied for an order that nobody can give
  await currentKubeAccess(context); // nor for one that cannot be drained from here
  const leaving = await findRemovalTarget(context, name);
  const { node } = leaving;
  const hasOrder = mayHaveOrder(leaving);
  const plan = hasOrder ? undefined : await guarded(context, node);
  const losses = lossesOfRemoval(node, { kind: 'reset', isLost: false, replacesKeys: false });
  if (options.dryRun) return tellPlan(context, node, { losses, plan });
  if (plan !== undefined) {
    await confirmLoss(context, { doing: `resetting node ${node.name}`, losses, yes: options.yes });
    await drainAndTakeRoles(context, node, plan.voters.after, { ...options, isLost: false });
    await order(context, node, sign(node));
  }
  const left = { isLost: false, keep: true, wait: false };
  const { held, outcome } = await startKeyReplacement(context, node, left);
  await deleteNode(context, node, { isReset: true });
  const { traces, tried } = await awaitRemoved(context, node, held);
  await completePendingRemoval(context, node);
  const isCertain = leaving.earlierRun?.order !== 'sent' || !hasOrder;
  const { sharedKeys } = tried;
  const proofs = [...traces, ...tried.proofs];
  context.host.result(
    { node: node.name, nodeId: node.nodeId, proofs, sharedKeys, isOrdered: isCertain },
    () =>
      [
        isCertain
          ? `Node ${node.name} is out of the cluster; its machine makes itself fresh and may join again as a new node.`
          : `Node ${node.name} is out of the cluster. An earlier run was interrupted while it handed over the order to reset: if the machine does not make itself fresh, see \`cluster node reset --help\`.`,
        formatTable(
          ['CHECKED', 'RESULT'],
          proofs.map(({ what, actual }) => [what, actual]),
        ),
        ...describeSharedKeys(sharedKeys, { isLost: false, outcome, generation: held?.generation }),
      ].join('\n'),
  );
}

/**
 * Whether the machine has the order of an earlier run that was interrupted. Then it makes itself fresh, can take no other, and
 * only its records are left. One that still answers is given the order again unless it said that it had it.
 */
function mayHaveOrder({ node, earlierRun: before }: RemovalTarget): boolean {
  if (before === undefined) return false;
  if (before.order === 'taken' || isRecordDeleted(node)) return true;
  return before.order === 'sent' && node.health !== NodeHealth.HEALTHY;
}

/** The plan of a node that may be reset. @throws AdminError `nodes-change-unsafe` */
async function guarded(context: CommandContext, node: Node): Promise<RolePlan> {
  const plan = await readRolePlan(context, node, []);
  const refusals = [
    ...(node.state === NodeState.UP ? plan.refusals : [`${node.name} is no member that is UP`]),
    ...(node.health === NodeHealth.HEALTHY
      ? []
      : [
          'it is not healthy and could take no order; a machine that is gone, or that was reset from another workspace, is taken out by `cluster node remove --lost --keep-keys`',
        ]),
  ];
  if (refusals.length === 0) return plan;
  throw new NodesError(
    'nodes-change-unsafe',
    `resetting node ${node.name}: ${[...new Set(refusals)].join('; ')}`,
  );
}

/** `--dry-run`. Without a plan the machine has the order already. */
function tellPlan(
  { host }: CommandContext,
  node: Node,
  { losses, plan }: { readonly losses: readonly string[]; readonly plan: RolePlan | undefined },
): void {
  const steps = [
    ...(plan === undefined
      ? []
      : [
          ...plan.steps,
          "hand it the owner's order: it stops everything and deletes its state, key and lock",
        ]),
    'strike it off: every curator and API server refuses what it was; its machine is readmitted with your signature',
  ];
  host.result({ node: node.name, dryRun: true, steps, losses, plan }, () =>
    [
      `Node ${node.name} would be reset; nothing was done.`,
      ...(plan === undefined ? ['An earlier run, which was interrupted, has ordered it already.'] : []),
      ...steps.map((step, index) => `  ${index + 1}. ${step}`),
      ...(plan === undefined ? [] : [`  quorum  ${describeQuorum(plan)}`]),
      'This takes away:',
      renderLosses(losses),
    ].join('\n'),
  );
}

interface ResetOrder {
  readonly ownerPubKey: Uint8Array;
  readonly signature: Uint8Array;
  readonly vouchers: readonly OwnerVoucher[];
}

/** What signs for the owner who asks, for one node of this cluster. */
async function ownersHand(context: CommandContext): Promise<(node: Node) => ResetOrder> {
  const { keyPem, clusterId, vouchers } = await readCaller(context);
  const { ownerPubKey, isOwner } = await readCallingOwner(context);
  if (!isOwner) throw new NodesError('nodes-change-unsafe', 'resetting a node: only an owner may order it');
  return ({ nodeId }) => ({
    ownerPubKey,
    vouchers,
    signature: signEd25519(keyPem, resetStatement({ clusterId, nodeId })),
  });
}

/** Written down before and after: an interrupted run cannot ask the machine later what it has. */
async function order(context: CommandContext, { name, nodeId }: Node, signed: ResetOrder): Promise<void> {
  await context.host.step('node-order', `Ordering ${name} to be fresh`, async () => {
    await savePendingRemoval(context, { nodeId, name, order: 'sent' });
    await callCurator(context, (_, { signal }, of) =>
      of(NodeStreams).resetNode(
        { node: nodeId, order: { ...signed, vouchers: [...signed.vouchers] } },
        { signal, timeoutMs: ORDER_MS },
      ),
    );
    await savePendingRemoval(context, { nodeId, name, order: 'taken' });
  });
}
