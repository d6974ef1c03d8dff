import { createHash } from 'node:crypto';
import { VerifiedBundle } from '../../internal/attestation/collateral/index.ts';
import { WatchedKey, type Entry, type WatchPorts } from '../../internal/etcd/index.ts';
import { currentValue } from '../../internal/event/index.ts';
import { COLLATERAL_KEY, records, type CollateralRecord } from '../../internal/records/index.ts';

/** The uploaded bundle; an empty one before the first upload. @throws CollateralError */
export function bundleIn(record: CollateralRecord | undefined): VerifiedBundle {
  return VerifiedBundle.load(record && { ...record, bundle: Buffer.from(record.bundle, 'base64') });
}

/** An upload in the forms in which it is used. `message` is one object: it is encoded once for thousands of nodes. */
function formsOf(record: CollateralRecord | undefined) {
  const bundle = Buffer.from(record?.bundle ?? '', 'base64');
  const sha256 = createHash('sha256').update(bundle).digest();
  return { verified: bundleIn(record), sha256, message: Object.freeze({ bundle }) };
}

/** The state before the first upload. */
const NONE = formsOf(undefined);

/** The collateral that operators upload, for the validators of this node and for the nodes that fetch it. */
export class ClusterCollateral extends WatchedKey<typeof NONE> {
  constructor(ports: WatchPorts) {
    const recordIn = (entry: Entry) => records.collateral.decode(entry.key, entry.value);
    super({ ...ports, key: COLLATERAL_KEY, read: (entry) => formsOf(entry && recordIn(entry)) });
  }

  /**
   * The newest collateral, for validators; empty before the first upload. The policy limits the age of its
   * documents.
   */
  get current(): VerifiedBundle['forValidators'] {
    return (currentValue(this.value) ?? NONE).verified.forValidators;
  }

  /** The encoded bundle; empty if the caller already has the one with this SHA-256. */
  async fetch(knownSha256: Uint8Array, signal: AbortSignal): Promise<{ readonly bundle: Uint8Array }> {
    using watcher = this.value.watch();
    const { sha256, message } = await watcher.next(signal);
    return Buffer.compare(sha256, knownSha256) === 0 ? NONE.message : message;
  }
}
