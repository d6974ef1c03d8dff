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
/** How often the record is looked at while this machine has not heard the owner itself. */
const LOOK_MS = 60_000;

export type Ownership = Omit<OwnershipRecord, 'version'>;

export interface OwnershipOptions {
  readonly job: Pick<InitJob, 'acknowledged' | 'acknowledge' | 'outcome'>;
  /** Raw Ed25519 keys of the owners that this machine was provisioned with. */
  readonly ownerKeys: readonly Uint8Array[];
  readonly localControlPlane: Readable<LocalControlPlane | undefined>;
  readonly clock: Clock;
  readonly save: (ownership: Ownership, signal: AbortSignal) => Promise<void>;
  /** The owner's signature that the cluster has on record, base64. */
  readonly load: (signal: AbortSignal) => Promise<string | undefined>;
}

/**
 * Brings the owner's signature from the machine that made the cluster to where every join service can show it. Repeated
 * in each life of this machine; what is on record already stays.
 */
export function ownershipRunnable(options: OwnershipOptions): Runnable {
  const { job, localControlPlane, clock, save: keep } = options;
  return async (scope) => {
    const { signal } = scope;
    scope.healthy();
    scope.waiting('an owner to say whose cluster this is');
    const word = await ownersWord(options, scope);
    if (word === 'on record') return scope.done();
    const { ownershipSignatureBase64 } = word;
    const outcome = await when(job.outcome, (value) => value !== undefined, signal);
    if (outcome === undefined) throw new TypeError('an outcome that is none');
    const signature = Buffer.from(ownershipSignatureBase64, 'base64');
    const statement = ownershipStatement({ ...outcome, epoch: BigInt(outcome.epoch) });
    const owner = options.ownerKeys.find((key) => isSignedByRawEd25519Key(key, statement, signature));
    if (owner === undefined) {
      scope.log.error('no owner of this machine signed that the cluster is theirs: nobody can join');
      return scope.done();
    }
    const ownership = {
      epoch: outcome.epoch,
      ownerPubKey: Buffer.from(owner).toString('base64'),
      signature: ownershipSignatureBase64,
      timeMs: clock.nowMs(),
    };
    for (;;) {
      scope.waiting('a control plane on this node');
      await when(localControlPlane, (value) => value !== undefined, signal);
      try {
        await keep(ownership, signal);
        return scope.done();
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        scope.log.warn('whose cluster this is could not be written down yet', { error });
        await clock.sleep(RETRY_MS, signal);
      }
    }
  };
}

/**
 * What the owner has said to this machine, or to a curator where its word did not get through: that ends the init here too,
 * and the secrets of the request leave the disk.
 */
async function ownersWord(options: OwnershipOptions, scope: Scope): Promise<Acknowledgement | 'on record'> {
  const { job, localControlPlane, clock, load: known } = options;
  using looking = childSignal(scope.signal);
  const { signal } = looking;
  let isOnRecord = false;
  const look = async (): Promise<void> => {
    await when(job.outcome, (outcome) => outcome !== undefined, signal);
    for (;;) {
      await clock.sleep(LOOK_MS, signal);
      await when(localControlPlane, (running) => running !== undefined, signal);
      try {
        const signature = await known(signal);
        isOnRecord = signature !== undefined;
        if (signature !== undefined) return await job.acknowledge(signature);
      } catch (error) {
        if (isAbort(error, signal)) throw error;
        scope.log.warn('whose cluster this is could not be read', { error });
      }
    }
  };
  const seen = look();
  try {
    const word = await when(job.acknowledged, () => true, signal);
    return isOnRecord ? 'on record' : word;
  } finally {
    looking.abort(new Error('the owner has spoken'));
    await Promise.allSettled([seen]);
  }
}
