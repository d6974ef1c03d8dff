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

const CHECK_MS = 1_000;

/** Ports and inputs of the rotation worker. */
export interface RotationOptions extends Omit<CreateKeysPorts, 'etcd' | 'nowMs'> {
  /** "GENERATION/PHASE" of the cluster. */
  readonly clusterKeys: Readable<string | undefined>;
  /** Records of the cluster at the local etcd member, while this node is a control plane. */
  readonly etcd: () => KeySpace | undefined;
  readonly clock: Clock;
}

/**
 * Advances a rotation: every control plane checks whether all nodes have completed the phase, and the first
 * one that sees this records the next phase. Without a rotation, the worker is idle.
 */
export function rotationWorker(options: RotationOptions): Runnable {
  const { clusterKeys, clock } = options;
  return async (scope) => {
    scope.healthy();
    for (;;) {
      scope.waiting('next key rotation');
      await when(clusterKeys, isUnderWay, scope.signal);
      const why = await advanceOnce(options, scope).catch((error: unknown) => {
        scope.signal.throwIfAborted();
        return `records: ${describeError(error)}`;
      });
      scope.waiting(why);
      await clock.sleep(CHECK_MS, scope.signal);
    }
  };
}

function isUnderWay(told: string | undefined): boolean {
  return told !== undefined && told !== '' && !told.endsWith('/done');
}

/** Advances the rotation once if possible. Resolves with a text about what the rotation waits for. */
async function advanceOnce(options: RotationOptions, scope: Scope): Promise<string> {
  const { signal, log } = scope;
  const etcd = options.etcd();
  if (etcd === undefined) return 'the control plane of this node';
  const entry = await etcd.get(KEYS_KEY, { signal });
  if (entry === undefined) return 'next key rotation';
  const record = records.keys.decode(entry.key, entry.value);
  const { generation, phase } = record;
  const { entries } = await etcd.list(NODES_PREFIX, { signal });
  const next = planRotation({ generation, phase, madeBy: record.made?.by }, keyMembersFrom(entries));
  switch (next.kind) {
    case 'done':
      return 'next key rotation';
    case 'wait':
      return next.awaited.map(({ name, why }) => `${name}: ${why}`).join('; ');
    case 'make': {
      const now: Now = { etcd, entry, record };
      if (next.again) return restartRotation(options, now, scope);
      const ports = { ...options, etcd, nowMs: () => options.clock.nowMs() };
      if (await createKeys(ports, now, signal)) log.info('new shared keys created', { generation });
      return 'other control planes';
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

/**
 * Records the next phase. The last phase is also audited, because the previous keys are useless from then on.
 */
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
  if (isWritten) log.info('phase of the key rotation recorded', { generation, phase });
  return `all nodes to reach phase "${phase}"`;
}

async function restartRotation(
  options: RotationOptions,
  { etcd, entry, record: { made, ...record } }: Now,
  { signal, log }: Scope,
): Promise<string> {
  const generation = record.generation + 1;
  const asked = { ...record, generation, phase: 'asked', phaseSinceMs: options.clock.nowMs() } as const;
  const why =
    made === undefined
      ? 'nodes have earlier keys of this generation'
      : 'the node that created the keys was lost';
  const detail = { generation, instead: record.generation, why };
  if (
    await writeRotationAudited(
      etcd,
      { entry, record: asked },
      decisionOf(options, 'RestartRotation', detail),
      signal,
    )
  )
    log.warn('keys of this generation exist already or were lost, starting the next generation', {
      generation: record.generation,
    });
  return 'keys of the next generation';
}

function decisionOf(
  { nodeId, clock }: RotationOptions,
  method: string,
  detail: Decision['detail'],
): Decision {
  return { nodeId, nowMs: clock.nowMs(), method, detail };
}
