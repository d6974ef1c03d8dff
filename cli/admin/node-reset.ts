import { NodeHealth, NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { NodeStreams } from '../../joinservice/curatorproto/gen/streams_pb.js';
import { resetStatement, signEd25519, type OwnerVoucher } from '../../internal/crypto/index.ts';
import type { CommandContext } from '../app/command.ts';
import { currentAccess, readMember } from '../cluster/index.ts';
import { formatTable } from '../host/index.ts';
import { ask, nodeNamed } from './desk.ts';
import type { DrainOptions } from './drain.ts';
import { AdminError } from './errors.ts';
import { awaitProofs, strike, takeOut } from './node-remove.ts';
import { ownerAsking } from './ownership.ts';
import { decideAboutKeys } from './removal-keys.ts';
import { describeSharedKeys } from './shared-keys.ts';
import { describeQuorum } from './role-plan.ts';
import { planNow } from './set-role.ts';

const ORDER_MS = 30_000;

export interface ResetOptions {
  readonly dryRun: boolean;
  readonly drain: DrainOptions;
}

/**
 * `cluster node reset`: the node leaves in order, gets the owner's signed order, and is struck off. The machine makes
 * itself fresh and may ask to join again, as a new node.
 */
export async function runReset(context: CommandContext, name: string, options: ResetOptions): Promise<void> {
  const sign = await ownersHand(context); // before the node is emptied for an order that nobody can give
  await currentAccess(context); // nor for one that can't be drained from here
  const node = await nodeNamed(context, name);
  const plan = await planNow(context, node, []);
  const refusals = [
    ...(node.state === NodeState.UP ? plan.refusals : [`${node.name} is no member that is UP`]),
    ...(node.health === NodeHealth.HEALTHY
      ? []
      : [
          'it is not healthy and could take no order; a machine that is gone is taken out by `cluster node remove --lost`',
        ]),
  ];
  if (refusals.length > 0)
    throw new AdminError('manage-guard', `resetting node ${node.name}: ${[...new Set(refusals)].join('; ')}`);
  if (options.dryRun) {
    const steps = [
      ...plan.steps,
      "hand it the owner's order: it stops everything and deletes its state, key and lock",
      'strike it off: every curator and API server refuses what it was; its machine is readmitted with your signature',
    ];
    context.host.result({ node: node.name, dryRun: true, steps, plan }, () =>
      [
        `Node ${node.name} would be reset; nothing was done.`,
        ...steps.map((step, index) => `  ${index + 1}. ${step}`),
        `  quorum  ${describeQuorum(plan)}`,
      ].join('\n'),
    );
    return;
  }
  await takeOut(context, node, plan.voters.after, { ...options, isLost: false });
  await order(context, node, sign(node));
  const left = { isLost: false, keep: true, wait: false };
  const { held, outcome } = await decideAboutKeys(context, node, left);
  await strike(context, node, { isReset: true });
  const { traces, tried } = await awaitProofs(context, node, held);
  const { sharedKeys } = tried;
  const proofs = [...traces, ...tried.proofs];
  context.host.result({ node: node.name, nodeId: node.nodeId, proofs, sharedKeys }, () =>
    [
      `Node ${node.name} is out of the cluster; its machine makes itself fresh and may join again as a new node.`,
      formatTable(
        ['CHECKED', 'RESULT'],
        proofs.map(({ what, actual }) => [what, actual]),
      ),
      ...describeSharedKeys(sharedKeys, { isLost: false, outcome, generation: held?.generation }),
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
  const { keyPem, clusterId, vouchers } = await readMember(context);
  const { ownerPubKey, isOwner } = await ownerAsking(context);
  if (!isOwner) throw new AdminError('manage-guard', 'resetting a node: only an owner may order it');
  return ({ nodeId }) => ({
    ownerPubKey,
    vouchers,
    signature: signEd25519(keyPem, resetStatement({ clusterId, nodeId })),
  });
}

async function order(context: CommandContext, { name, nodeId }: Node, signed: ResetOrder): Promise<void> {
  await context.host.step('node-order', `Ordering ${name} to be fresh`, () =>
    ask(context, (_, { signal }, of) =>
      of(NodeStreams).resetNode(
        { node: nodeId, order: { ...signed, vouchers: [...signed.vouchers] } },
        { signal, timeoutMs: ORDER_MS },
      ),
    ),
  );
}
