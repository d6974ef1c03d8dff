import type { Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { Entry, KeySpace } from '../../internal/etcd/index.ts';
import { when, type Readable } from '../../internal/event/index.ts';
import { planRotation, type KeyPhase } from '../../internal/keyset/index.ts';
import { KEYS_KEY, NODES_PREFIX, records, type KeysRecord } from '../../internal/records/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { writeRotation, writeRotationAudited, type Decision } from './write-rotation.ts';
import { createKeys, type CreateKeysPorts } from './create-keys.ts';
import { keyMembersFrom } from './key-members.ts';

const LOOK_MS = 1_000;

export interface RotationOptions extends Omit<CreateKeysPorts, 'etcd' | 'nowMs'> {
  /** "GENERATION/PHASE" as curators tell it. */
  readonly clusterKeys: Readable<string | undefined>;
  /** The cluster's records as the local member has them, while this node runs a control plane. */
  readonly etcd: () => KeySpace | undefined;
  readonly clock: Clock;
}

/**
 * Takes a rotation on: every control plane looks whether everybody is where the phase wants them, and whoever sees it first
 * writes the next one down. While none is under way nothing is asked of anybody.
 */
export function rotationWorker(options: RotationOptions): Runnable {
  const { clusterKeys, clock } = options;
  return async (scope) => {
    scope.healthy();
    for (;;) {
      scope.waiting('keys to be replaced');
      await when(clusterKeys, isUnderWay, scope.signal);
      const why = await lookOnce(options, scope).catch((error: unknown) => {
        scope.signal.throwIfAborted();
        return `a look at the records: ${describeError(error)}`;
      });
      scope.waiting(why);
      await clock.sleep(LOOK_MS, scope.signal);
    }
  };
}

function isUnderWay(told: string | undefined): boolean {
  return told !== undefined && told !== '' && !told.endsWith('/done');
}

/** Answers what is waited for. */
async function lookOnce(options: RotationOptions, scope: Scope): Promise<string> {
  const { signal, log } = scope;
  const etcd = options.etcd();
  if (etcd === undefined) return 'the control plane of this node';
  const entry = await etcd.get(KEYS_KEY, { signal });
  if (entry === undefined) return 'keys to be replaced';
  const record = records.keys.decode(entry.key, entry.value);
  const { generation, phase } = record;
  const { entries } = await etcd.list(NODES_PREFIX, { signal });
  const next = planRotation({ generation, phase, madeBy: record.made?.by }, keyMembersFrom(entries));
  switch (next.kind) {
    case 'done':
      return 'keys to be replaced';
    case 'wait':
      return next.awaited.map(({ name, why }) => `${name}: ${why}`).join('; ');
    case 'make': {
      const now: Now = { etcd, entry, record };
      if (next.again) return askAgain(options, now, scope);
      const ports = { ...options, etcd, nowMs: () => options.clock.nowMs() };
      if (await createKeys(ports, now, signal))
        log.info('new keys of the control planes are made', { generation });
      return 'the other control planes';
    }
    case 'next':
      return goOn(options, { etcd, entry, record }, next.phase, scope);
  }
}

interface Now {
  readonly etcd: KeySpace;
  readonly entry: Entry;
  readonly record: KeysRecord;
}

/** Phases are how far it is, and their end is what an auditor asks for: since when the previous keys open nothing. */
async function goOn(
  options: RotationOptions,
  { etcd, entry, record }: Now,
  phase: KeyPhase,
  { signal, log }: Scope,
): Promise<string> {
  const later = { ...record, phase, phaseSinceMs: options.clock.nowMs() };
  const { generation, startedBy, startedMs, made } = record;
  const end = { generation, startedBy, startedMs, madeBy: made?.by ?? null };
  const isWritten =
    phase === 'done'
      ? await writeRotationAudited(
          etcd,
          { entry, record: later },
          decisionOf(options, 'FinishRotation', end),
          signal,
        )
      : await writeRotation(etcd, entry, later, signal);
  if (isWritten) log.info('the keys of the control planes', { generation, phase });
  return `all of them to reach "${phase}"`;
}

async function askAgain(
  options: RotationOptions,
  { etcd, entry, record: { made, ...record } }: Now,
  { signal, log }: Scope,
): Promise<string> {
  const generation = record.generation + 1;
  const asked = { ...record, generation, phase: 'asked', phaseSinceMs: options.clock.nowMs() } as const;
  const why =
    made === undefined ? 'nodes have keys of it from before' : 'who made its keys is gone with them';
  const detail = { generation, instead: record.generation, why };
  if (
    await writeRotationAudited(
      etcd,
      { entry, record: asked },
      decisionOf(options, 'RestartRotation', detail),
      signal,
    )
  )
    log.warn('keys of this generation were made before, or lost: those of the next one are made', {
      generation: record.generation,
    });
  return 'other keys';
}

function decisionOf(
  { nodeId, clock }: RotationOptions,
  method: string,
  detail: Decision['detail'],
): Decision {
  return { nodeId, nowMs: clock.nowMs(), method, detail };
}
