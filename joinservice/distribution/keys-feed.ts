import { formatStage } from '../../internal/keyset/index.ts';
import type { Entry, KeySpace } from '../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { KEYS_KEY, records } from '../../internal/records/index.ts';

/** The stage of the key rotation, from one etcd watch for all watchers of the directory. */
export class KeysFeed {
  readonly #etcd: KeySpace;
  readonly #log: Logger;
  readonly #stage = new EventValue<string>();

  constructor(ports: { readonly etcd: KeySpace; readonly log: Logger }) {
    this.#etcd = ports.etcd;
    this.#log = ports.log;
  }

  /** "GENERATION/PHASE", empty before the first rotation; unset before the first read of etcd. */
  get stage(): Readable<string> {
    return this.#stage;
  }

  /** Watches until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#etcd.watch(KEYS_KEY, { signal })) {
      if (event.kind === 'relist') this.#apply(event.entries.find(({ key }) => key === KEYS_KEY));
      else if (event.kind === 'changes')
        for (const change of event.changes) if (change.kind === 'put') this.#apply(change.entry);
    }
  }

  #apply(entry: Entry | undefined): void {
    const now = this.#stage.peek();
    try {
      const stage = entry === undefined ? '' : textOf(records.keys.decode(entry.key, entry.value));
      if (!now.set || now.value !== stage) this.#stage.set(stage);
    } catch (error) {
      this.#log.error('key rotation record invalid, keeping the previous stage', { error });
      if (!now.set) this.#stage.set('');
    }
  }
}

function textOf({ generation, phase }: ReturnType<typeof records.keys.decode>): string {
  return phase === 'asked' ? `${generation}/asked` : formatStage({ generation, phase });
}
