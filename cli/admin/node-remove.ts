import { NodeHealth, NodeRole, NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { ExitName } from '../../internal/errors/index.ts';
import { deleteNodeObject } from '../../internal/kube/index.ts';
import type { CommandContext } from '../app/command.ts';
import { currentAccess } from '../cluster/index.ts';
import { formatTable } from '../host/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { ask, newMutation, withKubernetes } from './desk.ts';
import { drainNode, type DrainOptions } from './drain.ts';
import { readInForce } from './configuration-in-force.ts';
import { AdminError } from './errors.ts';
import { entriesOf, forgetNode, refuseWithoutOwner, type ForgetOptions } from './forget-node.ts';
import { closeLeaving, isRecordGone, keepLeaving, leavingNode } from './leaving.ts';
import { lossesOfLeaving } from './losses.ts';
import { decideAboutKeys, followFate, heldBy, type KeysChoice, type KeysFate } from './removal-keys.ts';
import { lookForTraces, type RemovalProof } from './removal-traces.ts';
import { PROOF_MS, awaitTrials, tryPapers, type HeldKeys, type TriedPapers } from './removal-trials.ts';
import { awaitFollowed } from './role-follow.ts';
import { describeQuorum } from './role-plan.ts';
import { planNow } from './set-role.ts';
import { describeSharedKeys } from './shared-keys.ts';

const POLL_MS = 1_000;

export interface RemoveOptions {
  readonly dryRun: boolean;
  /** The machine is gone: nothing of it can be asked to go in order. */
  readonly isLost: boolean;
  /** The operator agrees to the loss without being asked. */
  readonly yes: boolean;
  readonly drain: DrainOptions;
  /** What becomes of the keys that all control planes share, where it held them. */
  readonly keys: Pick<KeysChoice, 'keep' | 'wait'>;
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
  await currentAccess(context); // before anything is taken away: the end of it needs Kubernetes
  const { node } = await leavingNode(context, name);
  const choice = { isLost: options.isLost, ...options.keys };
  if (isRecordGone(node)) {
    const known = await decideAboutKeys(context, node, choice);
    await strike(context, node, { isReset: false });
    return tellRemoval(context, node, { choice, fate: known });
  }
  const plan = await planNow(context, node, []);
  const refusals = plan.refusals.filter(() => node.state === NodeState.UP);
  if (node.health !== NodeHealth.HEALTHY && node.state === NodeState.UP && !options.isLost)
    refusals.push(`it is not healthy and could not leave in order; say --lost if it will not come back`);
  const entries = entriesOf(node, await readInForce(context));
  await refuseWithoutOwner(context, node, { entries, isLost: options.isLost });
  if (refusals.length > 0)
    throw new AdminError('manage-guard', `removing node ${node.name}: ${refusals.join('; ')}`);
  const loss = { kind: 'remove', isLost: options.isLost, replacesKeys: replacesKeys(node, choice) } as const;
  const losses = lossesOfLeaving(node, loss);
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
  if (node.state === NodeState.UP) await takeOut(context, node, plan.voters.after, options);
  const fate = await decideAboutKeys(context, node, choice);
  await keepLeaving(context, { nodeId: node.nodeId, name: node.name, order: 'none' });
  await strike(context, node, { isReset: false });
  return tellRemoval(context, node, { choice, fate });
}

async function tellRemoval(
  context: CommandContext,
  node: Node,
  { choice, fate: before }: { readonly choice: KeysChoice; readonly fate: KeysFate },
): Promise<ExitName> {
  const { traces, tried: first } = await awaitProofs(context, node, before.held);
  const { outcome, held } = await followFate(context, node, { fate: before, wait: choice.wait });
  await closeLeaving(context, node);
  const isNews = held?.isReplaced === true && before.held?.isReplaced !== true;
  const tried = isNews ? await awaitTrials(context, node, held) : first;
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

function replacesKeys(node: Node, { isLost, keep }: KeysChoice): boolean {
  return isLost && !keep && heldBy(node, undefined) !== undefined;
}

/** In the order that harms nobody: pods, then roles, so that etcd loses a member that leaves by itself. */
export async function takeOut(
  context: CommandContext,
  node: Node,
  votersAfter: number,
  options: Pick<RemoveOptions, 'isLost' | 'drain'>,
): Promise<void> {
  const { name, nodeId, roles } = node;
  if (!options.isLost) await drainNode(context, name, options.drain);
  const mutation = newMutation();
  await ask(context, (curator, call) => curator.setNodeRoles({ nodeId, roles: [], mutation }, call));
  // Without any roles it may have been one when an earlier run was interrupted.
  if ((roles.length === 0 || roles.includes(NodeRole.CONSENSUS_MEMBER)) && !options.isLost)
    await awaitFollowed(context, { name, voters: votersAfter });
}

export async function strike(context: CommandContext, node: Node, options: ForgetOptions): Promise<void> {
  const { name, nodeId, state } = node;
  await context.host.step('node-strike', `Striking ${name} off the records`, async () => {
    const gone = { nodeId, state: NodeState.DECOMMISSIONED, mutation: newMutation() };
    if (state === NodeState.NEW || state === NodeState.STANDBY || state === NodeState.UP)
      await ask(context, (curator, call) => curator.setNodeState(gone, call));
    if (!isRecordGone({ state })) await forgetNode(context, node, options);
    await withKubernetes(context, (client) => deleteNodeObject(client, name, context.signal));
  });
}

/** That a node is gone, and what came of showing papers in its name. */
export interface Removal {
  readonly traces: readonly RemovalProof[];
  readonly tried: TriedPapers;
}

/** Until everything says so. Papers are tried last: while a record is there, nobody may show them. */
export async function awaitProofs(
  context: CommandContext,
  node: Node,
  held: HeldKeys | undefined,
): Promise<Removal> {
  const { clock } = context.ports;
  return context.host.step('node-proofs', `Asking whether ${node.name} is gone`, async (progress) => {
    const deadlineMs = clock.monotonicMs() + PROOF_MS;
    for (;;) {
      const traces = await lookForTraces(context, node);
      const tried = traces.every(({ ok }) => ok) ? await tryPapers(context, node.nodeId, held) : NOT_TRIED;
      const proofs = [...traces, ...tried.proofs];
      const open = proofs.filter(({ ok }) => !ok);
      if (open.length === 0) return { traces, tried };
      const text = open.map(({ what, actual }) => `${what}: ${actual}`).join('; ');
      progress.update(text);
      if (clock.monotonicMs() > deadlineMs)
        throw new AdminError(
          'manage-still-accepted',
          `removing node ${node.name} (${node.nodeId}): ${text}`,
          {
            details: { proofs },
          },
        );
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

const NOT_TRIED = { proofs: [], sharedKeys: [] } as const;
