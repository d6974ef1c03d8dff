import { createHash } from 'node:crypto';
import { parseClusterConfig, type ClusterConfig } from '../../../internal/config/index.ts';
import type { Entry, KeySpace } from '../../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../../internal/event/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { CONFIGURATION_KEY, records } from '../../../internal/records/index.ts';
import { JoinError } from '../errors.ts';
import type { JoinPolicy } from './decide-join.ts';

/** The cluster's configuration in force: read as a whole, then swapped in; a bad one changes nothing. */
export interface ActiveConfiguration {
  readonly config: ClusterConfig;
  readonly policy: JoinPolicy;
  /** The revision of etcd at which the document was written; names it in the audit. */
  readonly revision: bigint;
  /** Of the document's exact bytes, hex: what owners sign. */
  readonly sha256: string;
}

/** Follows the operators' document and keeps the newest good one in force. */
export class ActiveConfigurationSource {
  readonly #etcd: KeySpace;
  readonly #log: Logger;
  readonly #onSwap: (active: ActiveConfiguration) => void;
  readonly #current = new EventValue<ActiveConfiguration>();

  /** `onSwap` may throw: then the document is as bad as one that cannot be read, and the old one stays. */
  constructor(options: {
    readonly etcd: KeySpace;
    readonly log: Logger;
    readonly onSwap?: (active: ActiveConfiguration) => void;
  }) {
    this.#etcd = options.etcd;
    this.#log = options.log;
    this.#onSwap = options.onSwap ?? (() => undefined);
  }

  /** Unset until the first good document. */
  get current(): Readable<ActiveConfiguration> {
    return this.#current;
  }

  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#etcd.watch(CONFIGURATION_KEY, { signal })) {
      const entries =
        event.kind === 'relist'
          ? event.entries
          : event.kind === 'changes'
            ? event.changes.flatMap((change) => (change.kind === 'put' ? [change.entry] : []))
            : [];
      const newest = entries.filter(({ key }) => key === CONFIGURATION_KEY).at(-1);
      if (newest !== undefined) this.#swap(newest);
    }
  }

  #swap(entry: Entry): void {
    const before = this.#current.peek();
    if (before.set && before.value.revision === entry.modRevision) return;
    try {
      const now = activeConfigurationFrom(entry);
      this.#onSwap(now);
      this.#current.set(now);
      this.#log.info('a configuration is in force', {
        version: now.policy.version,
        policy: now.policy.policy,
      });
    } catch (error) {
      const kept = before.set ? before.value.policy.version : 'none';
      this.#log.error('a configuration is not usable, the one before stays in force', {
        revision: entry.modRevision,
        kept,
        error,
      });
    }
  }
}

/** Throws `join-not-ready` as long as there is none. */
export function requireConfiguration(
  configuration: Readable<ActiveConfiguration>,
): Pick<ActiveConfiguration, 'policy' | 'sha256'> {
  const now = configuration.peek();
  if (now.set) return now.value;
  throw new JoinError('join-not-ready', 'deciding about a machine: no configuration is in force');
}

/** Throws `records-invalid` or `config-invalid`. */
export function activeConfigurationFrom(entry: Entry): ActiveConfiguration {
  const { document } = records.configuration.decode(entry.key, entry.value);
  const bytes = Buffer.from(document, 'base64');
  const config = parseClusterConfig(bytes.toString('utf8'), entry.key);
  const version = `configuration-${entry.modRevision}`;
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  return { config, policy: { ...config.join, version }, revision: entry.modRevision, sha256 };
}
