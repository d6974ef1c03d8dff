import { randomBytes } from 'node:crypto';
import { Admission } from '../../joinservice/curatorproto/gen/admission_pb.js';
import type { CommandContext } from '../app/command.ts';
import { askForKeys, describePhase, type KeysView } from '../cluster/index.ts';
import { formatDuration, formatTable } from '../host/index.ts';
import { ask, newMutation } from './desk.ts';
import { AdminError } from './errors.ts';
import { followKeys } from './keys-follow.ts';
import { awaitTrials } from './removal-trials.ts';
import { describeReplaced } from './shared-keys.ts';

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
  /** The generation to be replaced; undefined for the one that the cluster was made with. */
  readonly replace: number | undefined;
}

/** `cluster keys rotate`: all of them by new ones, with nothing interrupted, and the proof that the old ones open nothing. */
export async function runKeysRotate(context: CommandContext, options: RotateOptions): Promise<void> {
  const { reason, wait, replace } = options;
  const { generation, isDone } = await askForNewKeys(context, { reason, replaces: replace ?? 0 });
  if (replace !== undefined && generation <= replace)
    throw new AdminError(
      'manage-flag-invalid',
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
  const keys = await followKeys(context, generation);
  if (!keys.isDone) throw stuck(context, keys);
  // In the name of a node that never was: whether the keys of before are believed does not depend on it.
  const nobody = { nodeId: `node-${randomBytes(16).toString('hex')}`, name: 'the keys of before' };
  const held = { generation: generation - 1, isReplaced: true };
  const { proofs, sharedKeys } = await awaitTrials(context, nobody, held);
  context.host.result({ generation, isDone: true, proofs, sharedKeys }, () =>
    [
      isDone
        ? alreadyReplaced(generation)
        : `The keys that control planes share were replaced; these are of generation ${generation}.`,
      ...describeReplaced(sharedKeys),
      '',
      'Kubeconfigs of before are refused; whoever has a workspace of an owner gets another: cluster kubeconfig --renew',
    ].join('\n'),
  );
}

function alreadyReplaced(generation: number): string {
  return `The keys that were meant had been replaced before; those of generation ${generation} are in force, and nothing was begun.`;
}

/**
 * Asks the control planes for others than those of a generation; where they are at it already, that goes on. Answers on the
 * way to which generation they are, or which one they have: then those that were meant had been replaced before.
 */
export async function askForNewKeys(
  context: CommandContext,
  { reason, replaces }: { readonly reason: string; readonly replaces: number },
): Promise<{ readonly generation: number; readonly isDone: boolean }> {
  const request = { reason, replaces: BigInt(replaces), mutation: newMutation() };
  const { generation, isDone } = await ask(context, (_, call, of) => of(Admission).rotateKeys(request, call));
  return { generation: Number(generation), isDone };
}

/** @throws AdminError `manage-keys-fixed` */
async function keysNow(context: CommandContext): Promise<KeysView> {
  const keys = await ask(context, (_, call, of) => askForKeys(of, call));
  if (keys === undefined)
    throw new AdminError('manage-keys-fixed', 'asking how far the keys are: the curator knows nothing of it');
  return keys;
}

/** It goes on by itself as soon as it can. */
function stuck({ ports }: CommandContext, keys: KeysView): AdminError {
  const text = describePhase(keys, ports.clock.nowMs());
  return new AdminError('manage-keys-wait', `replacing the keys of control planes: ${text}`, {
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
    `phase  ${describePhase({ ...keys, awaited: [] }, nowMs)}`,
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
