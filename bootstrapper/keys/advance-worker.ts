import type { Clock } from '../../internal/clock/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { when, type Readable } from '../../internal/event/index.ts';
import { advance } from '../../internal/keyset/index.ts';
import { KEYS_KEY, NODES_PREFIX, records, type KeysRecord } from '../../internal/records/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import { change, makeKeys, type MakeKeysPorts } from './make-keys.ts';
import { keyMembersFrom } from './members.ts';

const LOOK_MS = 1_000;

export interface AdvanceOptions extends Omit<MakeKeysPorts, 'etcd' | 'nowMs'> {
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
export function advanceWorker(options: AdvanceOptions): Runnable {
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
async function lookOnce(options: AdvanceOptions, { signal, log }: Scope): Promise<string> {
  const etcd = options.etcd();
  if (etcd === undefined) return 'the control plane of this node';
  const entry = await etcd.get(KEYS_KEY, { signal });
  if (entry === undefined) return 'keys to be replaced';
  const record = records.keys.decode(entry.key, entry.value);
  const { generation, phase } = record;
  const { entries } = await etcd.list(NODES_PREFIX, { signal });
  const next = advance({ generation, phase, madeBy: record.made?.by }, keyMembersFrom(entries));
  switch (next.kind) {
    case 'done':
      return 'keys to be replaced';
    case 'wait':
      return next.awaited.map(({ name, why }) => `${name}: ${why}`).join('; ');
    case 'make': {
      if (next.again) {
        await change(etcd, entry, askedAgain(record, options.clock.nowMs()), signal);
        log.warn('keys of this generation were made before, or lost: those of the next one are made', {
          generation,
        });
        return 'other keys';
      }
      const ports = { ...options, etcd, nowMs: () => options.clock.nowMs() };
      if (await makeKeys(ports, { entry, record }, signal))
        log.info('new keys of the control planes are made', { generation });
      return 'the other control planes';
    }
    case 'next': {
      const later = { ...record, phase: next.phase, phaseSinceMs: options.clock.nowMs() };
      if (await change(etcd, entry, later, signal))
        log.info('the keys of the control planes', { generation, phase: next.phase });
      return `all of them to reach "${next.phase}"`;
    }
  }
}

function askedAgain({ made: _, ...record }: KeysRecord, nowMs: number): KeysRecord {
  return { ...record, generation: record.generation + 1, phase: 'asked', phaseSinceMs: nowMs };
}
