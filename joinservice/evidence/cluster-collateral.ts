import { createHash } from 'node:crypto';
import { VerifiedBundle } from '../../internal/attestation/collateral/index.ts';
import { watchKey, type Entry, type KeySpace } from '../../internal/etcd/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { COLLATERAL_KEY, records, type CollateralRecord } from '../../internal/records/index.ts';

/** The uploaded bundle; an empty one before the first upload. @throws CollateralError */
export function bundleIn(record: CollateralRecord | undefined): VerifiedBundle {
  return record === undefined
    ? VerifiedBundle.NONE
    : VerifiedBundle.load(Buffer.from(record.bundle, 'base64'), record.evaluationNumber);
}

/** An upload in the forms in which it is used. `message` is one object: it is encoded once for thousands of nodes. */
type ActiveCollateral = ReturnType<typeof activeFrom>;

function activeFrom(record: CollateralRecord | undefined) {
  const bundle = Buffer.from(record?.bundle ?? '', 'base64');
  const sha256 = createHash('sha256').update(bundle).digest();
  return { verified: bundleIn(record), sha256, message: Object.freeze({ bundle }) };
}

/** The state before the first upload. */
const NONE = activeFrom(undefined);

/** Watches the collateral that operators upload, for the validators of this node and for the nodes that fetch it. */
export class ClusterCollateral {
  readonly #ports: { readonly etcd: KeySpace; readonly log: Logger };
  /** Unset until etcd has been read for the first time. */
  readonly #active = new EventValue<ActiveCollateral>();

  constructor(ports: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#ports = ports;
  }

  /**
   * The newest collateral, for validators; empty before the first upload. The policy limits the age of its
   * documents.
   */
  get current(): VerifiedBundle['forValidators'] {
    const active = this.#active.peek();
    return (active.set ? active.value : NONE).verified.forValidators;
  }

  /** The encoded bundle; empty if the caller already has the one with this SHA-256. */
  async fetch(knownSha256: Uint8Array, signal: AbortSignal): Promise<{ readonly bundle: Uint8Array }> {
    using watcher = this.#active.watch();
    const { sha256, message } = await watcher.next(signal);
    return Buffer.compare(sha256, knownSha256) === 0 ? NONE.message : message;
  }

  /** Watches until the signal fires. */
  run(signal: AbortSignal): Promise<never> {
    return watchKey(this.#ports.etcd, COLLATERAL_KEY, { signal, apply: (entry) => this.#swap(entry) });
  }

  #swap(entry: Entry | undefined): void {
    const { log } = this.#ports;
    try {
      if (entry !== undefined) {
        this.#active.set(activeFrom(records.collateral.decode(entry.key, entry.value)));
        log.info('collateral updated', { revision: entry.modRevision });
      }
    } catch (error) {
      log.error('collateral record unusable, keeping the previous one', { error });
    }
    if (!this.#active.peek().set) this.#active.set(NONE);
  }
}
