import { resetStatement, signEd25519, type OwnerVoucher } from '../../../internal/crypto/index.ts';
import { NodeHealth, NodeState, type Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { callCurator, currentKubeAccess, readCaller } from '../../cluster/index.ts';
import { confirmLoss } from '../../loss/index.ts';
import { isOwnerOnRecord } from '../../operators/index.ts';
import { lossesOfDrain, type DrainOptions } from '../drain.ts';
import { NodesError } from '../errors.ts';
import { unsafeChange, type RolePlan } from '../roles/role-plan.ts';
import { readRolePlan } from '../roles/set-role.ts';
import { lossesOfBackups } from './kept-backups.ts';
import { lossesOfRemoval } from './losses.ts';
import { deleteAndCheck, drainAndTakeRoles } from './node-remove.ts';
import {
  findRemovalTarget,
  isRecordDeleted,
  savePendingRemoval,
  type RemovalTarget,
} from './pending-removals.ts';
import { nextForMachine, showRemovalPreview } from './render-removal.ts';

const ORDER_TIMEOUT_MS = 30_000;

/** Arguments of `cluster node reset`. */
export interface ResetOptions {
  readonly dryRun: boolean;
  /** The operator confirmed the loss with `--yes`. */
  readonly yes: boolean;
  readonly drain: DrainOptions;
}

/**
 * `cluster node reset`: drains the node, takes its roles, sends the owner's signed order to reset, and deletes its records.
 * The machine then deletes all data of the cluster and may ask to join again as a new node.
 */
export async function runReset(context: CommandContext, name: string, options: ResetOptions): Promise<void> {
  // Fail before the first change: only an owner can sign the order, and draining needs Kubernetes.
  const sign = await resetOrderSigner(context);
  await currentKubeAccess(context);
  const target = await findRemovalTarget(context, name);
  const { node } = target;
  requireOrderable(target);
  const hasOrder = mayHaveOrder(target);
  const plan = hasOrder ? undefined : await planReset(context, node);
  const losses = [
    ...lossesOfRemoval(node, { kind: 'reset', isLost: false, replacesKeys: false }),
    ...(await lossesOfBackups(context, node)),
    ...(plan === undefined ? [] : await lossesOfDrain(context, node.name, options.drain)),
  ];
  if (options.dryRun) return showPreview(context, node, { losses, plan });
  if (plan !== undefined) {
    await confirmLoss(context, { doing: `resetting node ${node.name}`, losses, yes: options.yes });
    const { nodeId } = node;
    await savePendingRemoval(context, { nodeId, name: node.name, order: target.earlierRun?.order ?? 'none' });
    await drainAndTakeRoles(context, node, plan.voters.after, { ...options, isLost: false });
    await sendOrder(context, node, sign(node));
  }
  const choice = { isReset: true, isLost: false, keep: true, wait: false };
  const { proofs, sharedKeys, lines } = await deleteAndCheck(context, node, choice);
  const isOrdered = target.earlierRun?.order !== 'sent' || !hasOrder;
  const next = isOrdered ? nextForMachine(node, { isReset: true, isLost: false }) : [];
  context.host.result({ node: node.name, nodeId: node.nodeId, proofs, sharedKeys, isOrdered, next }, () =>
    [
      isOrdered
        ? `Node ${node.name} is removed. Its machine resets itself.`
        : `Node ${node.name} is removed. An earlier run was interrupted while it sent the reset order: if the machine does not reset itself, see \`cluster node reset --help\`.`,
      ...lines,
      ...(next.length === 0 ? [] : ['', ...next]),
    ].join('\n'),
  );
}

/**
 * A removed machine takes no order from the cluster, and nothing else resets it, unless an earlier run of this
 * workspace has sent the order.
 * @throws NodesError `nodes-already-removed`
 */
function requireOrderable({ node, earlierRun }: RemovalTarget): void {
  if (!isRecordDeleted(node) || (earlierRun !== undefined && earlierRun.order !== 'none')) return;
  const text = `resetting node ${node.name}: it is removed already, so its machine takes no order; this workspace has not reset it`;
  throw new NodesError('nodes-already-removed', text);
}

/**
 * Whether an interrupted run has sent the order to the machine. The machine then resets itself, so that only
 * its records remain to be deleted. If it still responds and has not acknowledged the order, the order is
 * sent again.
 */
function mayHaveOrder({ node, earlierRun }: RemovalTarget): boolean {
  if (earlierRun === undefined) return false;
  if (earlierRun.order === 'taken' || isRecordDeleted(node)) return true;
  return earlierRun.order === 'sent' && node.health !== NodeHealth.HEALTHY;
}

/** @throws NodesError `nodes-change-unsafe`, `nodes-last-control-plane` */
async function planReset(context: CommandContext, node: Node): Promise<RolePlan> {
  const { name, health, state } = node;
  const plan = await readRolePlan(context, node, []);
  const refusals = [
    ...(state === NodeState.UP
      ? plan.refusals
      : [`only a member (a node in state UP) can be reset, and ${name} is not one`]),
    ...(health === NodeHealth.HEALTHY
      ? []
      : [
          'the node does not respond and cannot receive the order: if the machine is lost, or was reset from another workspace, run `cluster node remove --lost --keep-keys`',
        ]),
  ];
  if (refusals.length === 0) return plan;
  throw unsafeChange(`resetting node ${name}`, plan, { why: refusals });
}

/** Prints the steps. `plan` is undefined if the machine already has the order to reset. */
function showPreview(
  context: CommandContext,
  node: Node,
  { losses, plan }: { readonly losses: readonly string[]; readonly plan: RolePlan | undefined },
): void {
  const steps = [
    ...(plan === undefined
      ? []
      : [
          ...plan.steps,
          'send the reset order: the machine stops everything and deletes its state, keys and node lock',
        ]),
    'delete its records: every curator and API server refuses its old credentials; its machine may ask to join again',
  ];
  const notes = plan === undefined ? ['An earlier, interrupted run has sent the reset order.'] : [];
  showRemovalPreview(context, node, { done: 'reset', notes, steps, losses, plan });
}

interface ResetOrder {
  readonly ownerPubKey: Uint8Array;
  readonly signature: Uint8Array;
  readonly vouchers: readonly OwnerVoucher[];
}

/** Signs orders with the key of the owner who runs the command. @throws NodesError `nodes-change-unsafe` */
async function resetOrderSigner(context: CommandContext): Promise<(node: Node) => ResetOrder> {
  const caller = await readCaller(context);
  const { keyPem, clusterId, vouchers, pubKey: ownerPubKey } = caller;
  if (!(await isOwnerOnRecord(context, caller)))
    throw new NodesError('nodes-change-unsafe', 'resetting a node: requires role owner');
  return ({ nodeId }) => ({
    ownerPubKey,
    vouchers,
    signature: signEd25519(keyPem, resetStatement({ clusterId, nodeId })),
  });
}

/**
 * Sends the order. Saves the progress before and after the call, because a machine that is resetting itself
 * cannot report whether it has the order.
 */
async function sendOrder(context: CommandContext, { name, nodeId }: Node, signed: ResetOrder): Promise<void> {
  await context.host.step('node-order', `Sending the reset order to ${name}`, async () => {
    await savePendingRemoval(context, { nodeId, name, order: 'sent' });
    await callCurator(context, ({ nodeStreams }) =>
      nodeStreams.resetNode(
        { node: nodeId, order: { ...signed, vouchers: [...signed.vouchers] } },
        { timeoutMs: ORDER_TIMEOUT_MS },
      ),
    );
    await savePendingRemoval(context, { nodeId, name, order: 'taken' });
  });
}
