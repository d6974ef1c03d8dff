import { formatStage } from '../../internal/keyset/index.ts';
import { watchKey, type Entry, type KeySpace } from '../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';

/** The stage of the key rotation, from one etcd watch for all watchers of the directory. */
export class KeysFeed {
  readonly #ports: { readonly etcd: KeySpace; readonly log: Logger };
  readonly #stage = new EventValue<string>();

  constructor(ports: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#ports = ports;
  }

  /** "GENERATION/PHASE", empty before the first rotation; unset before the first read of etcd. */
  get stage(): Readable<string> {
    return this.#stage;
  }

  /** Watches until the signal fires. */
  run(signal: AbortSignal): Promise<never> {
    return watchKey(this.#ports.etcd, KEYS_KEY, { signal, apply: (entry) => this.#apply(entry) });
  }

  #apply(entry: Entry | undefined): void {
    const now = this.#stage.peek();
    try {
      const stage = entry === undefined ? '' : textOf(records.keys.decode(entry.key, entry.value));
      if (!now.set || now.value !== stage) this.#stage.set(stage);
    } catch (error) {
      this.#ports.log.error('key rotation record invalid, keeping the previous stage', { error });
      if (!now.set) this.#stage.set('');
    }
  }
}

function textOf({ generation, phase }: KeysRecord): string {
  return phase === 'asked' ? `${generation}/asked` : formatStage({ generation, phase });
}
