import { formatDuration } from '../../../internal/clock/index.ts';
import { Admission, type GetKeysResponse } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { RpcError } from '../../../internal/rpc/index.ts';
import type { CuratorCallOptions, CuratorClients } from '../curator/call-curator.ts';
import { printable } from '../../../internal/printable/index.ts';

/** What each phase is about (internal/keyset), in order. */
const PHASES: Readonly<Record<string, string>> = {
  asked: 'a control plane is to make the new keys',
  hand: 'every control plane gets the new keys',
  believe: 'the new keys are believed beside the old ones',
  issue: 'control planes show what the new keys make',
  refresh: 'kubelets and pods get what the new keys make',
  retire: 'the old keys are believed no more',
};
const DONE = 'done';

/** How far the cluster is with replacing the keys that control planes share. */
export interface KeysView {
  /** 1 as they were made with the cluster. */
  readonly generation: number;
  readonly phase: string;
  readonly isDone: boolean;
  readonly startedMs: number;
  readonly phaseSinceMs: number;
  readonly startedBy: string;
  readonly reason: string;
  readonly awaited: readonly { readonly name: string; readonly why: string }[];
}

export function keysViewFrom(response: GetKeysResponse): KeysView {
  const phase = printable(response.stage?.phase ?? DONE);
  return {
    generation: Number(response.stage?.generation ?? 1n),
    phase,
    isDone: phase === DONE,
    startedMs: Number(response.startedMs),
    phaseSinceMs: Number(response.phaseSinceMs),
    startedBy: printable(response.startedBy),
    reason: printable(response.reason),
    awaited: response.awaited.map(({ name, why }) => ({ name: printable(name), why: printable(why) })),
  };
}

/** undefined from a curator that knows nothing of it yet. */
export async function fetchKeysView(
  of: CuratorClients,
  call: CuratorCallOptions,
): Promise<KeysView | undefined> {
  try {
    return keysViewFrom(await of(Admission).getKeys({}, call));
  } catch (error) {
    if (error instanceof RpcError && error.code === 'rpc-not-served') return undefined;
    throw error;
  }
}

/** "3 of 6, control planes show what the new keys make, for 12 s; waits for n2 (it is off)" */
export function describeRotationPhase(view: KeysView, nowMs: number): string {
  const names = Object.keys(PHASES);
  const index = names.indexOf(view.phase);
  const what = index < 0 ? view.phase : `${index + 1} of ${names.length}, ${PHASES[view.phase]}`;
  return `${what}, for ${formatDuration(nowMs - view.phaseSinceMs)}${awaitedText(view)}`;
}

function awaitedText({ awaited }: KeysView): string {
  if (awaited.length === 0) return '';
  return `; waits for ${awaited.map(({ name, why }) => `${name} (${why})`).join(', ')}`;
}

/** For the picture of the whole; nothing where no rotation is under way. */
export function keysLine(view: KeysView | undefined, nowMs: number): readonly string[] {
  if (view === undefined || view.isDone) return [];
  return [`keys        being replaced: ${describeRotationPhase(view, nowMs)}`];
}
