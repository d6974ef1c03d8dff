import { formatDuration } from '../../internal/clock/index.ts';
import { randomBytes } from 'node:crypto';
import { OperatorApi } from '../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { CommandContext } from '../app/command.ts';
import { formatTable } from '../host/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { followRotation } from './follow-rotation.ts';
import { awaitCredentialsRefused } from './removal-probe.ts';
import { describeReplacedKeys } from './shared-keys.ts';
import {
  fetchKeysView,
  describeRotationPhase,
  type KeysView,
  callCurator,
  newMutation,
} from '../cluster/index.ts';
import { AppError } from '../app/errors.ts';
import { KeysError } from './errors.ts';

const FIRST_GENERATION = 1;
/** What the keys of before open no more. */
const LOSSES_OF_ROTATION: readonly string[] = [
  'all kubeconfigs made before: they are refused, and owners get others by `cluster kubeconfig --renew`',
  'tokens of service accounts made before: pods get new ones by themselves, copies outside the cluster stop working',
  'for some seconds each, etcd and the API server of one control plane after the other',
];

/** `cluster keys show`: which keys control planes share now, and how far they are replaced by others. */
export async function runKeysShow(context: CommandContext): Promise<void> {
  const keys = await keysNow(context);
  const nowMs = context.ports.clock.nowMs();
  context.host.result({ keys }, () => renderKeys(keys, nowMs));
}

export interface RotateOptions {
  readonly reason: string;
  /** Whether to follow it to its end. */
  readonly wait: boolean;
  readonly dryRun: boolean;
  /** The operator agrees to the loss without being asked. */
  readonly yes: boolean;
  /** The generation to be replaced; undefined for the one that the cluster was made with. */
  readonly replace: number | undefined;
}

/** `cluster keys rotate`: all of them by new ones, with nothing interrupted, and the proof that the old ones open nothing. */
export async function runKeysRotate(context: CommandContext, options: RotateOptions): Promise<void> {
  const { reason, wait, replace } = options;
  if (await isOnlyAsked(context, options)) return;
  const { generation, isDone } = await requestRotation(context, { reason, replaces: replace ?? 0 });
  if (replace !== undefined && generation <= replace)
    throw new AppError(
      'app-usage',
      `reading --replace: generation ${replace} is only being made; see \`cluster keys show\``,
    );
  if (!wait) {
    context.host.result({ generation, isDone }, () =>
      isDone
        ? alreadyReplaced(generation)
        : [
            `Keys of generation ${generation} replace those that control planes share; the cluster does it by itself.`,
            'How far it is: cluster keys show',
          ].join('\n'),
    );
    return;
  }
  const keys = await followRotation(context, generation);
  if (!keys.isDone) throw stuck(context, keys);
  // In the name of a node that never was: whether the keys of before are believed does not depend on it.
  const nobody = { nodeId: `node-${randomBytes(16).toString('hex')}`, name: 'the keys of before' };
  const held = { generation: generation - 1, isReplaced: true };
  const { proofs, sharedKeys } = await awaitCredentialsRefused(context, nobody, held);
  context.host.result({ generation, isDone: true, proofs, sharedKeys }, () =>
    [
      isDone
        ? alreadyReplaced(generation)
        : `The keys that control planes share were replaced; these are of generation ${generation}.`,
      ...describeReplacedKeys(sharedKeys),
      '',
      'Kubeconfigs of before are refused; whoever has a workspace of an owner gets another: cluster kubeconfig --renew',
    ].join('\n'),
  );
}

/** Whether nothing is to be done; else the operator has agreed to what is lost, where anything is. */
async function isOnlyAsked(context: CommandContext, options: RotateOptions): Promise<boolean> {
  if (options.yes && !options.dryRun) return false;
  const { generation, isDone } = await keysNow(context);
  const isBegun = !isDone || generation > (options.replace ?? FIRST_GENERATION);
  const losses = isBegun ? [] : LOSSES_OF_ROTATION;
  if (!options.dryRun) {
    const doing = `replacing the keys of generation ${generation}`;
    await confirmLoss(context, { doing, losses, yes: options.yes });
    return false;
  }
  context.host.result({ generation, isDone, losses, dryRun: true }, () =>
    isBegun
      ? `Nothing would be begun: generation ${generation} is ${isDone ? 'in force' : 'being made'}.`
      : [
          `The keys of generation ${generation} would be replaced; nothing was done. This takes away:`,
          renderLosses(losses),
        ].join('\n'),
  );
  return true;
}

function alreadyReplaced(generation: number): string {
  return `The keys that were meant had been replaced before; those of generation ${generation} are in force, and nothing was begun.`;
}

/**
 * Asks the control planes for others than those of a generation; where they are at it already, that goes on. Answers on the
 * way to which generation they are, or which one they have: then those that were meant had been replaced before.
 */
export async function requestRotation(
  context: CommandContext,
  { reason, replaces }: { readonly reason: string; readonly replaces: number },
): Promise<{ readonly generation: number; readonly isDone: boolean }> {
  const request = { reason, replaces: BigInt(replaces), mutation: newMutation() };
  const { generation, isDone } = await callCurator(context, (_, call, of) =>
    of(OperatorApi).rotateKeys(request, call),
  );
  return { generation: Number(generation), isDone };
}

/** @throws AdminError `keys-rotation-unsupported` */
async function keysNow(context: CommandContext): Promise<KeysView> {
  const keys = await callCurator(context, (_, call, of) => fetchKeysView(of, call));
  if (keys === undefined)
    throw new KeysError(
      'keys-rotation-unsupported',
      'asking how far the keys are: the curator knows nothing of it',
    );
  return keys;
}

/** It goes on by itself as soon as it can. */
function stuck({ ports }: CommandContext, keys: KeysView): KeysError {
  const text = describeRotationPhase(keys, ports.clock.nowMs());
  return new KeysError('keys-rotation-stalled', `replacing the keys of control planes: ${text}`, {
    details: { keys },
  });
}

function renderKeys(keys: KeysView, nowMs: number): string {
  const { generation, isDone, startedMs, phaseSinceMs, startedBy, reason, awaited } = keys;
  const ago = `${formatDuration(nowMs - startedMs)} ago by ${startedBy}${reason === '' ? '' : `: ${reason}`}`;
  if (isDone)
    return generation === 1
      ? 'Generation 1: as they were made with the cluster.'
      : `Generation ${generation}, in force for ${formatDuration(nowMs - phaseSinceMs)}, asked for ${ago}`;
  return [
    `Being replaced by generation ${generation}, asked for ${ago}`,
    describeRotationPhase({ ...keys, awaited: [] }, nowMs),
    ...(awaited.length === 0
      ? []
      : [
          '',
          formatTable(
            ['WAITS FOR', 'WHY'],
            awaited.map(({ name, why }) => [name, why]),
          ),
        ]),
  ].join('\n');
}
