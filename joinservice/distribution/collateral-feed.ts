import { createHash } from 'node:crypto';
import type { Entry, KeySpace } from '../../internal/etcd/index.ts';
import { EventValue } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { COLLATERAL_KEY, records } from '../../internal/records/index.ts';

/** What is handed on now, encoded once for the thousands that ask. */
interface HandedOn {
  readonly sha256: Uint8Array;
  readonly message: { readonly bundle: Uint8Array };
}

const NOTHING = Object.freeze({ bundle: new Uint8Array() });

/** What operators handed on, kept here so that an asker costs no read of the store: one watch for all of them. */
export class CollateralFeed {
  readonly #etcd: KeySpace;
  readonly #log: Logger;
  /** Unset before the store was read for the first time. */
  readonly #current = new EventValue<HandedOn | undefined>();

  constructor(ports: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#etcd = ports.etcd;
    this.#log = ports.log;
  }

  /** The bundle, unless it is the one that the asker has. */
  async fetch(knownSha256: Uint8Array, signal: AbortSignal): Promise<{ readonly bundle: Uint8Array }> {
    using watcher = this.#current.watch();
    const now = await watcher.next(signal);
    return now === undefined || Buffer.compare(now.sha256, knownSha256) === 0 ? NOTHING : now.message;
  }

  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#etcd.watch(COLLATERAL_KEY, { signal })) {
      if (event.kind === 'relist') this.#swap(event.entries.find(({ key }) => key === COLLATERAL_KEY));
      else if (event.kind === 'changes')
        for (const change of event.changes) if (change.kind === 'put') this.#swap(change.entry);
    }
  }

  #swap(entry: Entry | undefined): void {
    if (entry === undefined) {
      if (!this.#current.peek().set) this.#current.set(undefined);
      return;
    }
    try {
      const bundle = Buffer.from(records.collateral.decode(entry.key, entry.value).bundle, 'base64');
      const sha256 = createHash('sha256').update(bundle).digest();
      this.#current.set({ sha256, message: Object.freeze({ bundle }) });
    } catch (error) {
      this.#log.error('collateral is not usable, what was there before is handed on', { error });
      if (!this.#current.peek().set) this.#current.set(undefined);
    }
  }
}
