import { randomBytes } from 'node:crypto';
import { formatDuration } from '../../internal/clock/index.ts';
import { FIRST_GENERATION } from '../../internal/keyset/index.ts';
import type { CommandContext } from '../app/command.ts';
import { AppError } from '../app/errors.ts';
import {
  callCurator,
  describeRotationPhase,
  fetchKeysView,
  newMutation,
  withCuratorRetries,
  type KeysView,
} from '../cluster/index.ts';
import { formatTable } from '../host/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { KeysError } from './errors.ts';
import { followRotation, followUntilSigned, isAwaitingOwner } from './follow-rotation.ts';
import { awaitCredentialsRefused } from './removal-probe.ts';
import { describeReplacedKeys } from './shared-keys.ts';
import { restartSystemPods } from './system-pods.ts';

const UNSIGNED = 'No owner has signed these keys, so no machine can join: an owner must run `cluster sign`.';
const ROTATION_LOSSES: readonly string[] = [
  'all existing kubeconfigs: they are refused, and owners get new ones with `cluster kubeconfig --renew`',
  'all existing service account tokens: pods get new ones, but copies outside the cluster stop working',
  'one control plane after the other: its etcd and its API server restart, and are away for some seconds',
];

/** `cluster keys show`: the generation of the shared keys and the progress of a rotation. */
export async function runKeysShow(context: CommandContext): Promise<void> {
  const keys = await readKeys(context);
  const nowMs = context.ports.clock.nowMs();
  context.host.result({ keys }, () => renderKeys(keys, nowMs));
}

/** Arguments of `cluster keys rotate`. */
export interface RotateOptions {
  readonly reason: string;
  /** Whether to follow the rotation to its end. */
  readonly wait: boolean;
  readonly dryRun: boolean;
  /** The operator confirmed the loss with `--yes`. */
  readonly yes: boolean;
  /** The generation to replace; undefined for the keys of the init. */
  readonly replace: number | undefined;
}

/**
 * `cluster keys rotate`: replaces the shared keys without interrupting workloads, then tests that credentials made with the
 * old ones are refused. @throws KeysError, AppError `app-usage`
 */
export async function runKeysRotate(context: CommandContext, options: RotateOptions): Promise<void> {
  const { reason, wait, replace } = options;
  if (options.dryRun) return showRotationPlan(context, options);
  if (!options.yes) await confirmRotation(context, options);
  const { generation, isDone } = await requestRotation(context, { reason, replaces: replace ?? 0 });
  if (replace !== undefined && generation <= replace)
    throw new AppError('app-usage', `--replace: generation ${replace} is not complete yet`, {
      fix: 'Wait for it: `cluster keys show` shows its progress.',
    });
  if (!wait) {
    const signed = isDone ? undefined : await followUntilSigned(context, generation);
    if (signed !== undefined && isAwaitingOwner(signed)) throw stalled(context, signed);
    context.host.result({ generation, isDone }, () =>
      isDone
        ? alreadyReplaced(generation)
        : `The cluster is replacing the shared keys by generation ${generation}. To see its progress: cluster keys show`,
    );
    return;
  }
  const keys = await followRotation(context, generation);
  if (!keys.isDone) throw stalled(context, keys);
  await restartSystemPods(context, generation);
  // The credentials in this test are in the name of a node that never existed: whether old keys are trusted
  // does not depend on the node.
  const nobody = { nodeId: `node-${randomBytes(16).toString('hex')}`, name: 'credentials of the old keys' };
  const held = { generation: generation - 1, isReplaced: true };
  const { proofs, sharedKeys } = await awaitCredentialsRefused(withCuratorRetries(context), nobody, held);
  context.host.result({ generation, isDone: true, proofs, sharedKeys }, () =>
    [
      isDone ? alreadyReplaced(generation) : `The shared keys are now those of generation ${generation}.`,
      ...describeReplacedKeys(sharedKeys),
      '',
      'Old kubeconfigs are refused. In every other workspace run: cluster kubeconfig --renew',
      'Pods that read the CA of API servers before the rotation may accept API servers with certificates of the old CA until these pods restart. To list them: cluster doctor',
    ].join('\n'),
  );
}

/**
 * What a rotation would do. `isRequested`: the keys in question are already replaced or being replaced, so a
 * request would start nothing new.
 */
async function planRotation(context: CommandContext, { replace }: RotateOptions) {
  const { generation, isDone } = await readKeys(context);
  const isRequested = !isDone || generation > (replace ?? FIRST_GENERATION);
  return { generation, isDone, isRequested, losses: isRequested ? [] : ROTATION_LOSSES };
}

async function confirmRotation(context: CommandContext, options: RotateOptions): Promise<void> {
  const { generation, losses } = await planRotation(context, options);
  await confirmLoss(context, { doing: `replacing the keys of generation ${generation}`, losses, yes: false });
}

async function showRotationPlan(context: CommandContext, options: RotateOptions): Promise<void> {
  const { generation, isDone, isRequested, losses } = await planRotation(context, options);
  context.host.result({ generation, isDone, losses, dryRun: true }, () =>
    isRequested
      ? isDone
        ? alreadyReplaced(generation)
        : `Nothing to do: generation ${generation} is being created.`
      : [
          `The keys of generation ${generation} would be replaced. Nothing was changed. Consequences:`,
          renderLosses(losses),
        ].join('\n'),
  );
}

function alreadyReplaced(generation: number): string {
  return `Nothing to do: the keys have already been replaced by those of generation ${generation}. To replace these too: cluster keys rotate --replace ${generation}`;
}

/**
 * Requests that the keys of generation `replaces` (0: the keys of the init) be replaced. If a rotation is
 * under way, it continues and no other one starts.
 * @returns the generation that is being created, or the current one if the keys have already been replaced
 * (`isDone`)
 */
export async function requestRotation(
  context: CommandContext,
  { reason, replaces }: { readonly reason: string; readonly replaces: number },
): Promise<{ readonly generation: number; readonly isDone: boolean }> {
  const request = { reason, replaces: BigInt(replaces), mutation: newMutation() };
  const { generation, isDone } = await callCurator(context, ({ operatorApi }) =>
    operatorApi.rotateKeys(request),
  );
  return { generation: Number(generation), isDone };
}

/** @throws KeysError `keys-rotation-unsupported` */
async function readKeys(context: CommandContext): Promise<KeysView> {
  const keys = await callCurator(context, fetchKeysView);
  if (keys === undefined)
    throw new KeysError('keys-rotation-unsupported', 'the curator does not support key rotation');
  return keys;
}

function stalled({ ports }: CommandContext, keys: KeysView): KeysError {
  const text = describeRotationPhase(keys, ports.clock.nowMs());
  return new KeysError('keys-rotation-stalled', `rotating the shared keys: ${text}`, { details: { keys } });
}

function renderKeys(keys: KeysView, nowMs: number): string {
  const { generation, isDone, startedMs, phaseSinceMs, startedBy, reason, awaited } = keys;
  const request = `requested ${formatDuration(nowMs - startedMs)} ago by ${startedBy}${reason === '' ? '' : `: ${reason}`}`;
  if (isDone && generation === FIRST_GENERATION) return 'generation 1 (initial)';
  if (isDone) {
    const current = `generation ${generation}, current for ${formatDuration(nowMs - phaseSinceMs)}, ${request}`;
    return keys.needsOwner ? `${current}\n${UNSIGNED}` : current;
  }
  return [
    `rotating to generation ${generation}, ${request}`,
    describeRotationPhase({ ...keys, awaited: [] }, nowMs),
    ...(awaited.length === 0
      ? []
      : [
          '',
          formatTable(
            ['WAITING FOR', 'REASON'],
            awaited.map(({ name, why }) => [name, why]),
          ),
        ]),
  ].join('\n');
}
