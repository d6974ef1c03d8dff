import { EventValue, type Readable } from '../event/index.ts';
import type { Logger } from '../logging/index.ts';
import { watchKey, type Entry, type KeySpace } from './key-space.ts';

/** Ports (injected dependencies) of a watch. */
export interface WatchPorts {
  readonly etcd: Pick<KeySpace, 'watch'>;
  readonly log: Logger;
}

/** The key that a `WatchedKey` watches, and how it parses an entry. */
interface WatchedKeyOptions<T> extends WatchPorts {
  readonly key: string;
  /** Returns the value for an entry. Gets undefined if the key does not exist. */
  readonly read: (entry: Entry | undefined) => T;
}

/** The value of one key in etcd, from one watch for all readers. If `read` throws for an entry, the error is logged and the previous value stays. */
export class WatchedKey<T> {
  readonly #options: WatchedKeyOptions<T>;
  readonly #value = new EventValue<T>();

  constructor(options: WatchedKeyOptions<T>) {
    this.#options = options;
  }

  /** Unset before the first read of etcd. */
  get value(): Readable<T> {
    return this.#value;
  }

  /** Watches until the signal fires. */
  run(signal: AbortSignal): Promise<never> {
    const { etcd, key } = this.#options;
    return watchKey(etcd, key, { signal, apply: (entry) => this.#apply(entry) });
  }

  #apply(entry: Entry | undefined): void {
    const { key, log, read } = this.#options;
    const now = this.#value.peek();
    try {
      const value = read(entry);
      if (!now.set || now.value !== value) this.#value.set(value);
    } catch (error) {
      log.error('record invalid, keeping the previous value', { key, error });
      if (!now.set) this.#value.set(read(undefined));
    }
  }
}
