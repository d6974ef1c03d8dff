import { childSignal } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { isSignedByRawEd25519Key, ownershipStatement } from '../../internal/crypto/index.ts';
import { isAbort } from '../../internal/errors/index.ts';
import { when, type Readable } from '../../internal/event/index.ts';
import type { OwnershipRecord } from '../../internal/records/index.ts';
import type { Runnable, Scope } from '../../internal/supervisor/index.ts';
import type { Acknowledgement, InitJob } from '../initserver/index.ts';
import type { LocalControlPlane } from '../roleserve/index.ts';

const RETRY_MS = 2_000;
/** How often the cluster's record is read while the owner has not acknowledged at this machine. */
const READ_MS = 60_000;

/** The owner's signature over cluster id, CA and epoch, in the form of its record. */
export type Ownership = Omit<OwnershipRecord, 'version'>;

/** Inputs and ports (injected dependencies) of `ownershipRunnable()`. */
export interface OwnershipOptions {
  readonly job: Pick<InitJob, 'acknowledged' | 'acknowledge' | 'outcome'>;
  /** Raw Ed25519 keys of the owners that this machine was provisioned with. */
  readonly ownerKeys: readonly Uint8Array[];
  readonly localControlPlane: Readable<LocalControlPlane | undefined>;
  readonly clock: Clock;
  readonly save: (ownership: Ownership, signal: AbortSignal) => Promise<void>;
  /** The recorded signature of the owner, base64; undefined without one. */
  readonly load: (signal: AbortSignal) => Promise<string | undefined>;
}

/**
 * Records the owner's acknowledgement in the cluster, so that every join service can prove who owns the cluster. Repeated at
 * each start of the agent; an existing record stays.
 */
export function ownershipRunnable(options: OwnershipOptions): Runnable {
  const { job, localControlPlane, clock, save: keep } = options;
  return async (scope) => {
    const { signal } = scope;
    scope.healthy();
    scope.waiting('acknowledgement of an owner');
    const acknowledgement = await waitForAcknowledgement(options, scope);
    if (acknowledgement === 'on record') return scope.done();
    const { ownershipSignatureBase64 } = acknowledgement;
    const outcome = await when(job.outcome, (value) => value !== undefined, signal);
    if (outcome === undefined) throw new TypeError('init result expected');
    const signature = Buffer.from(ownershipSignatureBase64, 'base64');
    const statement = ownershipStatement({ ...outcome, epoch: BigInt(outcome.epoch) });
    const owner = options.ownerKeys.find((key) => isSignedByRawEd25519Key(key, statement, signature));
    if (owner === undefined) {
      scope.log.error('acknowledgement not signed by an owner of this machine, so no machine can join');
      return scope.done();
    }
    const ownership = {
      epoch: outcome.epoch,
      ownerPubKey: Buffer.from(owner).toString('base64'),
      signature: ownershipSignatureBase64,
      timeMs: clock.nowMs(),
    };
    for (;;) {
      scope.waiting('control plane of this node');
      await when(localControlPlane, (value) => value !== undefined, signal);
      try {
        await keep(ownership, signal);
        return scope.done();
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        scope.log.warn('cluster ownership not recorded, retrying', { error });
        await clock.sleep(RETRY_MS, signal);
      }
    }
  };
}

/**
 * Waits until the owner acknowledges the result, at this machine or at a curator. Either acknowledgement ends
 * the init, and deletes the secrets of the request from the disk.
 */
async function waitForAcknowledgement(
  options: OwnershipOptions,
  scope: Scope,
): Promise<Acknowledgement | 'on record'> {
  const { job, localControlPlane, clock, load: known } = options;
  using reading = childSignal(scope.signal);
  const { signal } = reading;
  let isOnRecord = false;
  const readRecord = async (): Promise<void> => {
    await when(job.outcome, (outcome) => outcome !== undefined, signal);
    for (;;) {
      await clock.sleep(READ_MS, signal);
      await when(localControlPlane, (running) => running !== undefined, signal);
      try {
        const signature = await known(signal);
        isOnRecord = signature !== undefined;
        if (signature !== undefined) return await job.acknowledge(signature);
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        scope.log.warn('cluster ownership not read, retrying', { error });
      }
    }
  };
  const read = readRecord();
  try {
    const acknowledgement = await when(job.acknowledged, () => true, signal);
    return isOnRecord ? 'on record' : acknowledgement;
  } finally {
    reading.abort(new Error('the owner has acknowledged'));
    await Promise.allSettled([read]);
  }
}
