import { createHash } from 'node:crypto';
import type { AuditLog } from '../../../internal/auditlog/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import {
  absent,
  EtcdError,
  put,
  type Condition,
  type KeySpace,
  type Write,
} from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';
import { nameOfCaller, type Caller } from '../access/authorize-caller.ts';
import { CuratorError } from '../errors.ts';
import { RecordLeases } from './record-leases.ts';
import { refuseField } from '../nodes/node-wire.ts';

const HOUR_MS = 60 * 60 * 1000;
const REPEATABLE_MS = 24 * HOUR_MS;
const TRIES = 16;

export interface Mutation {
  readonly caller: Caller;
  readonly method: string;
  /** What it is about, e.g. a node's id. */
  readonly subject: string;
  readonly idempotencyKey: string;
  /** The serialized request: the same key with another request is refused. */
  readonly request: Uint8Array;
  readonly signal: AbortSignal;
}

/** What a mutation is to do, from what was just read. */
export interface MutationPlan {
  /** The revisions that the plan was made from. */
  readonly when: readonly Condition[];
  /** Empty: it is so already. */
  readonly then: readonly Write[];
  /** For the audit; never secrets. */
  readonly detail: Readonly<Record<string, unknown>>;
}

/**
 * Every change that a caller asks for: in one transaction with its audit record and, under the caller's key, the fact
 * that it has happened. Curators hold nothing, so whoever loses a race reads again, and a repeated call is no second one.
 */
export class Mutations {
  readonly #etcd: KeySpace;
  readonly #clock: Clock;
  readonly #done: RecordLeases;
  readonly #audit: AuditLog;

  constructor(options: { readonly etcd: KeySpace; readonly clock: Clock; readonly audit: AuditLog }) {
    this.#etcd = options.etcd;
    this.#clock = options.clock;
    this.#done = new RecordLeases({ ...options, keepMs: REPEATABLE_MS, periodMs: HOUR_MS });
    this.#audit = options.audit;
  }

  /** Answers the revision at which it happened, now or when the caller asked first. */
  async run(mutation: Mutation, plan: () => Promise<MutationPlan>): Promise<bigint> {
    const { signal, method, subject } = mutation;
    if (!/^[0-9A-Za-z-]{8,64}$/.test(mutation.idempotencyKey))
      refuseField('mutation.idempotency_key', 'a UUID is expected, and a new one for each request');
    const key = records.mutation.key(`${nameOfCaller(mutation.caller)}/${mutation.idempotencyKey}`);
    for (let tries = 0; tries < TRIES; tries++) {
      const earlier = await this.#etcd.get(key, { signal });
      if (earlier !== undefined) {
        if (records.mutation.decode(key, earlier.value).requestSha256 === hash(mutation.request))
          return earlier.modRevision;
        throw new CuratorError('curator-key-reused', `${method} of ${subject} with the key of another call`);
      }
      const revision = await this.#commit(mutation, await plan(), key);
      if (revision !== undefined) return revision;
    }
    throw new CuratorError('curator-busy', `${method} of ${subject}: ${TRIES} tries were overtaken`);
  }

  /** undefined: somebody was faster, or a lease is not known any more (a restored etcd). */
  async #commit(mutation: Mutation, plan: MutationPlan, key: string): Promise<bigint | undefined> {
    const { signal } = mutation;
    try {
      const done = await this.#done.lease(signal);
      const happened = records.mutation.encode({ version: 1, requestSha256: hash(mutation.request) });
      const result = await this.#audit.commit(
        {
          when: [absent(key), ...plan.when],
          then: [...plan.then, put(key, happened, done)],
          facts: {
            timeMs: this.#clock.nowMs(),
            caller: nameOfCaller(mutation.caller),
            method: mutation.method,
            subject: mutation.subject,
            detail: { ...plan.detail, changed: plan.then.length > 0 },
          },
        },
        signal,
      );
      return result.kind === 'committed' ? result.revision : undefined;
    } catch (error) {
      if (!(error instanceof EtcdError && error.code === 'etcd-lease-gone')) throw error;
      this.#done.discard();
      return undefined;
    }
  }
}

function hash(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
