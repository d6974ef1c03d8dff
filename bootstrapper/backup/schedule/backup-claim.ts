import { childSignal } from '../../../internal/cleanup/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { unchanged, type Condition, type KeySpace } from '../../../internal/etcd/index.ts';
import {
  BACKUP_CLAIM_KEY,
  records,
  type BackupHeadRecord,
  type StoredRecord,
} from '../../../internal/records/index.ts';
import { BackupTaskError } from '../errors.ts';

const TTL_SECONDS = 60;
const RENEW_MS = 15_000;

/** The claim to take the next backup, while this node holds it. */
export interface BackupClaim {
  /** Fires with the caller's signal, or when this node may have lost the claim. */
  readonly signal: AbortSignal;
  /** A condition for writes to etcd: it holds only while this node has the claim. */
  readonly held: Condition;
}

/**
 * Runs `work` while this node holds the claim to take the next backup of the cluster. Does not run it, and resolves to
 * undefined, if another node holds the claim or has taken a backup since `head` was read. The claim of a node that crashed
 * expires by itself.
 */
export async function withBackupClaim<T>(
  { etcd, clock }: { readonly etcd: KeySpace; readonly clock: Clock },
  at: {
    readonly nodeId: string;
    readonly seq: number;
    readonly head: StoredRecord<BackupHeadRecord>;
    readonly signal: AbortSignal;
  },
  work: (claim: BackupClaim) => Promise<T>,
): Promise<T | undefined> {
  const { nodeId, seq, head, signal } = at;
  const leaseId = await etcd.grantLease(TTL_SECONDS, { signal });
  using held = childSignal(signal);
  try {
    const claim = records.backupClaim.put(BACKUP_CLAIM_KEY, { version: 1, nodeId, seq });
    if (claim.kind !== 'put') throw new TypeError('a put expected');
    const claimed = await etcd.commit(
      {
        when: [{ kind: 'absent', key: BACKUP_CLAIM_KEY }, head.unchanged],
        then: [{ ...claim, leaseId }],
      },
      { signal },
    );
    if (claimed.kind !== 'committed') return undefined;
    const renewing = renew(etcd, clock, leaseId, held).catch((error: unknown) => held.abort(error));
    try {
      const own = { key: BACKUP_CLAIM_KEY, modRevision: claimed.revision };
      return await work({ signal: held.signal, held: unchanged(own) });
    } finally {
      held.abort(new Error('the claim is released'));
      await renewing;
    }
  } finally {
    // Revoking the lease ends the claim. If this fails, the lease expires within a minute.
    await etcd
      .revokeLease(leaseId, { signal: new AbortController().signal, timeoutMs: RENEW_MS })
      .catch(() => undefined);
  }
}

async function renew(
  etcd: KeySpace,
  clock: Clock,
  leaseId: bigint,
  held: { readonly signal: AbortSignal },
): Promise<never> {
  let endsMs = clock.monotonicMs() + TTL_SECONDS * 1000;
  for (;;) {
    await clock.sleep(RENEW_MS, held.signal);
    const sentMs = clock.monotonicMs();
    const ttl = await etcd.keepLeaseAlive(leaseId, { signal: held.signal }).catch(() => {
      held.signal.throwIfAborted();
      return 0; // the next renewal tries again
    });
    if (ttl === undefined || (ttl === 0 && clock.monotonicMs() >= endsMs))
      throw new BackupTaskError('backup-node-claim-lost', `taking a backup: the lease ${leaseId} ended`);
    if (ttl > 0) endsMs = sentMs + ttl * 1000;
  }
}
