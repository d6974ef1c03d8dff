import { toBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import type { AuditLog } from '../../../internal/auditlog/index.ts';
import { type Clock, HOUR_MS } from '../../../internal/clock/index.ts';
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
import { sha256Of } from '../../ownerdocs/index.ts';
import { CuratorError } from '../errors.ts';
import { RecordLeases } from './record-leases.ts';
import { refuseField } from '../nodes/node-wire.ts';

const REPEATABLE_MS = 24 * HOUR_MS;
const TRIES = 16;

/** A change that a caller requests. */
export interface Mutation {
  readonly caller: Caller;
  readonly method: string;
  /** The object that is changed, e.g. the ID of a node; for the audit log. */
  readonly subject: string;
  readonly idempotencyKey: string;
  /** The serialized request. The same idempotency key with another request is refused. */
  readonly request: Uint8Array;
  readonly signal: AbortSignal;
}

/** The planned transaction of a mutation, based on records that were just read. */
export interface MutationPlan {
  /** Conditions that fail if a record that the plan is based on has changed. */
  readonly when: readonly Condition[];
  /** The writes; empty if nothing has to change. */
  readonly then: readonly Write[];
  /** Details for the audit log; never contains secrets. */
  readonly detail: Readonly<Record<string, unknown>>;
}

/**
 * Makes the changes that callers request. One transaction contains the change, its audit entry and a record under the
 * caller's idempotency key, so that a repeated call does not repeat the change. A mutation that loses a race is
 * planned again.
 */
export class Mutations {
  readonly #ports: { readonly etcd: KeySpace; readonly clock: Clock; readonly audit: AuditLog };
  readonly #leases: RecordLeases;

  constructor(ports: { readonly etcd: KeySpace; readonly clock: Clock; readonly audit: AuditLog }) {
    this.#ports = ports;
    this.#leases = new RecordLeases({ ...ports, keepMs: REPEATABLE_MS, periodMs: HOUR_MS });
  }

  /**
   * Makes a change once, however often the caller repeats it.
   * @param plan called again after each lost race
   * @returns the etcd revision of the change
   * @throws CuratorError `curator-key-reused`, `curator-busy`, and what `plan` throws
   */
  async run(mutation: Mutation, plan: () => Promise<MutationPlan>): Promise<bigint> {
    const { signal, method, subject } = mutation;
    if (!/^[0-9A-Za-z-]{8,64}$/.test(mutation.idempotencyKey))
      refuseField('mutation.idempotency_key', 'expected a UUID, a new one for each request');
    const key = records.mutation.key(`${nameOfCaller(mutation.caller)}/${mutation.idempotencyKey}`);
    for (let tries = 0; tries < TRIES; tries++) {
      // Both read from etcd, so they run at the same time; the transaction requires that the key is still absent.
      // A change that was already made can rarely be planned again. A failed plan therefore counts only for a new key.
      const [earlier, [planned]] = await Promise.all([
        this.#ports.etcd.get(key, { signal }),
        Promise.allSettled([plan()]),
      ]);
      if (earlier !== undefined) {
        if (records.mutation.decode(key, earlier.value).requestSha256 === sha256Of(mutation.request))
          return earlier.modRevision;
        throw new CuratorError(
          'curator-key-reused',
          `${method} of ${subject}: the idempotency key belongs to another request`,
        );
      }
      if (planned.status === 'rejected') throw planned.reason;
      const revision = await this.#commit(mutation, planned.value, key);
      if (revision !== undefined) return revision;
    }
    throw new CuratorError(
      'curator-busy',
      `${method} of ${subject}: the records were changed ${TRIES} times meanwhile`,
    );
  }

  /**
   * Returns undefined if another writer was faster, or if etcd does not know the lease because it was
   * restored.
   */
  async #commit(mutation: Mutation, plan: MutationPlan, key: string): Promise<bigint | undefined> {
    const { signal, caller, method, subject } = mutation;
    const { clock, audit } = this.#ports;
    try {
      const lease = await this.#leases.lease(signal);
      const marker = records.mutation.encode({ version: 1, requestSha256: sha256Of(mutation.request) });
      const result = await audit.commit(
        {
          when: [absent(key), ...plan.when],
          then: [...plan.then, put(key, marker, lease)],
          facts: {
            ...{ timeMs: clock.nowMs(), caller: nameOfCaller(caller), method, subject },
            detail: { ...plan.detail, changed: plan.then.length > 0 },
          },
        },
        signal,
      );
      return result.kind === 'committed' ? result.revision : undefined;
    } catch (error) {
      if (!(error instanceof EtcdError && error.code === 'etcd-lease-gone')) throw error;
      this.#leases.discard();
      return undefined;
    }
  }
}

/** The mutation that a request of the contract makes. Its name in the audit log is that of the method. */
export function mutationFrom<S extends DescMessage>(
  schema: S,
  request: MessageShape<S> & { readonly mutation?: { readonly idempotencyKey: string } | undefined },
  by: { readonly peer: Caller; readonly signal: AbortSignal; readonly subject: string },
): Mutation {
  return {
    caller: by.peer,
    method: schema.name.replace(/Request$/, ''),
    subject: by.subject,
    idempotencyKey: request.mutation?.idempotencyKey ?? '',
    request: toBinary(schema, request),
    signal: by.signal,
  };
}
