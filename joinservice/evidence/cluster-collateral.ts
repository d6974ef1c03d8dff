import { createHash } from 'node:crypto';
import { collateralFrom, parseBundle } from '../../internal/attestation/collateral/index.ts';
import type { Collateral } from '../../internal/attestation/index.ts';
import type { Entry, KeySpace } from '../../internal/etcd/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { COLLATERAL_KEY, records } from '../../internal/records/index.ts';

/** A collateral record for validators, which verify each document again. @throws for a record that cannot be read */
export function collateralFromRecord(entry: Entry): Pick<Collateral, 'snp' | 'tdx'> {
  return decode(entry).collateral;
}

interface DecodedCollateral {
  readonly collateral: Pick<Collateral, 'snp' | 'tdx'>;
  readonly sha256: Uint8Array;
  /** One object for all nodes: it is encoded once, and thousands of nodes fetch it. */
  readonly message: { readonly bundle: Uint8Array };
}

const NONE: DecodedCollateral = {
  collateral: {},
  sha256: new Uint8Array(),
  message: Object.freeze({ bundle: new Uint8Array() }),
};

/** Watches the collateral that operators upload, for the validators of this node and for the nodes that fetch it. */
export class ClusterCollateral {
  readonly #etcd: KeySpace;
  readonly #log: Logger;
  /** Unset until etcd has been read for the first time. */
  readonly #active = new EventValue<DecodedCollateral>();

  constructor(ports: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#etcd = ports.etcd;
    this.#log = ports.log;
  }

  /** For validators; empty before the first upload. The policy limits the age of documents. */
  get current(): Pick<Collateral, 'snp' | 'tdx'> {
    const active = this.#active.peek();
    return active.set ? active.value.collateral : {};
  }

  /** The encoded bundle; empty if the caller already has the one with this SHA-256. */
  async fetch(knownSha256: Uint8Array, signal: AbortSignal): Promise<{ readonly bundle: Uint8Array }> {
    using watcher = this.#active.watch();
    const { sha256, message } = await watcher.next(signal);
    return Buffer.compare(sha256, knownSha256) === 0 ? NONE.message : message;
  }

  /** Watches until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#etcd.watch(COLLATERAL_KEY, { signal })) {
      if (event.kind === 'relist') this.#swap(event.entries.find(({ key }) => key === COLLATERAL_KEY));
      else if (event.kind === 'changes')
        for (const change of event.changes) if (change.kind === 'put') this.#swap(change.entry);
    }
  }

  #swap(entry: Entry | undefined): void {
    try {
      if (entry !== undefined) {
        this.#active.set(decode(entry));
        this.#log.info('collateral updated', { revision: entry.modRevision });
      }
    } catch (error) {
      this.#log.error('collateral record unusable, keeping the previous one', { error });
    }
    if (!this.#active.peek().set) this.#active.set(NONE);
  }
}

function decode({ key, value }: Entry): DecodedCollateral {
  const { bundle: base64, evaluationNumber } = records.collateral.decode(key, value);
  const bundle = Buffer.from(base64, 'base64');
  return {
    collateral: collateralFrom(parseBundle(bundle).items, evaluationNumber),
    sha256: createHash('sha256').update(bundle).digest(),
    message: Object.freeze({ bundle }),
  };
}
