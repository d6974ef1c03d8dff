import { endorsementKeyIdIn, type KnownAttestationKey } from '../../../internal/attestation/index.ts';
import type { Change, Entry, KeySpace } from '../../../internal/etcd/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { IDENTITIES_PREFIX, records } from '../../../internal/records/index.ts';

/**
 * The attestation keys of recorded machines, watched in etcd. A challenge tied each key to its TPM when the
 * machine joined, so evidence of members needs no new challenge. Only a cache: membership is read from the
 * records for each call.
 */
export class KnownAttestationKeys {
  readonly #ports: { readonly etcd: KeySpace; readonly log: Logger };
  readonly #keys = new Map<string, KnownAttestationKey>();

  constructor(ports: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#ports = ports;
  }

  /** The known attestation keys by their Name in hex. */
  get known(): ReadonlyMap<string, KnownAttestationKey> {
    return this.#keys;
  }

  /** Watches until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#ports.etcd.watch(IDENTITIES_PREFIX, { signal })) {
      if (event.kind === 'relist') {
        this.#keys.clear();
        for (const entry of event.entries) this.#put(entry);
      } else if (event.kind === 'changes') for (const change of event.changes) this.#apply(change);
    }
  }

  #apply(change: Change): void {
    if (change.kind === 'put') return this.#put(change.entry);
    const gone = endorsementKeyIdIn(change.key.slice(IDENTITIES_PREFIX.length));
    if (gone === undefined) return;
    for (const [akName, { endorsementKeyId }] of this.#keys)
      if (endorsementKeyId === gone) this.#keys.delete(akName);
  }

  #put(entry: Entry): void {
    const identity = entry.key.slice(IDENTITIES_PREFIX.length);
    try {
      const { akName } = records.identity.decode(entry.key, entry.value);
      const endorsementKeyId = endorsementKeyIdIn(identity);
      if (akName !== undefined && endorsementKeyId !== undefined)
        this.#keys.set(akName, { endorsementKeyId });
    } catch (error) {
      this.#ports.log.warn('identity record invalid', { key: entry.key, error });
    }
  }
}
