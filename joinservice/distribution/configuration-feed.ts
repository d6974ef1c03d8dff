import { createHash } from 'node:crypto';
import { watchKey, type Entry, type KeySpace } from '../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../internal/event/index.ts';
import { CONFIGURATION_KEY } from '../../internal/records/index.ts';
import { storedConfiguration } from '../curator/index.ts';

/**
 * The hash of the configuration of the cluster, from one etcd watch for all watchers of the directory. It only wakes nodes: they
 * fetch the document and verify its signature.
 */
export class ConfigurationFeed {
  readonly #etcd: KeySpace;
  readonly #sha256 = new EventValue<string>();

  constructor(ports: { readonly etcd: KeySpace }) {
    this.#etcd = ports.etcd;
  }

  /** SHA-256 (hex), empty without a configuration; unset before the first read of etcd. */
  get sha256(): Readable<string> {
    return this.#sha256;
  }

  /** Watches until the signal fires. */
  run(signal: AbortSignal): Promise<never> {
    return watchKey(this.#etcd, CONFIGURATION_KEY, { signal, apply: (entry) => this.#apply(entry) });
  }

  #apply(entry: Entry | undefined): void {
    const now = this.#sha256.peek();
    const sha256 =
      entry === undefined
        ? ''
        : createHash('sha256').update(storedConfiguration(entry).document).digest('hex');
    if (!now.set || now.value !== sha256) this.#sha256.set(sha256);
  }
}
