import { parseClusterConfig, type ClusterConfig } from '../../../internal/config/index.ts';
import type { Entry, KeySpace } from '../../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../../internal/event/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { CONFIGURATION_KEY, records } from '../../../internal/records/index.ts';
import { sha256Of } from '../../ownerdocs/index.ts';
import { JoinError } from '../errors.ts';
import type { JoinPolicy } from './decide-join.ts';

/** The cluster configuration that currently applies. It is replaced as a whole; an invalid document changes nothing. */
export interface ActiveConfiguration {
  readonly config: ClusterConfig;
  readonly policy: JoinPolicy;
  /** The etcd revision at which the document was written; names it in the audit log. */
  readonly revision: bigint;
  /** SHA-256 of the exact bytes of the document, hex: what owners sign. */
  readonly sha256: string;
}

/** Watches the configuration in etcd and provides the newest valid one. */
export class ActiveConfigurationSource {
  readonly #etcd: KeySpace;
  readonly #log: Logger;
  readonly #onChange: (active: ActiveConfiguration) => void;
  readonly #current = new EventValue<ActiveConfiguration>();

  /** @param options `onChange` may throw, which makes the document invalid: the previous one stays */
  constructor(options: {
    readonly etcd: KeySpace;
    readonly log: Logger;
    readonly onChange?: (active: ActiveConfiguration) => void;
  }) {
    this.#etcd = options.etcd;
    this.#log = options.log;
    this.#onChange = options.onChange ?? (() => undefined);
  }

  /** Unset until the first valid document. */
  get current(): Readable<ActiveConfiguration> {
    return this.#current;
  }

  /** Watches until the signal fires. */
  async run(signal: AbortSignal): Promise<void> {
    for await (const event of this.#etcd.watch(CONFIGURATION_KEY, { signal })) {
      const entries =
        event.kind === 'relist'
          ? event.entries
          : event.kind === 'changes'
            ? event.changes.flatMap((change) => (change.kind === 'put' ? [change.entry] : []))
            : [];
      const newest = entries.filter(({ key }) => key === CONFIGURATION_KEY).at(-1);
      if (newest !== undefined) this.#apply(newest);
    }
  }

  #apply(entry: Entry): void {
    const before = this.#current.peek();
    if (before.set && before.value.revision === entry.modRevision) return;
    try {
      const now = activeConfigurationFrom(entry);
      this.#onChange(now);
      this.#current.set(now);
      this.#log.info('configuration applied', {
        version: now.policy.version,
        policy: now.policy.policy,
      });
    } catch (error) {
      const kept = before.set ? before.value.policy.version : 'none';
      this.#log.error('configuration invalid, keeping the previous one', {
        revision: entry.modRevision,
        kept,
        error,
      });
    }
  }
}

/** The current configuration. @throws JoinError `join-not-ready` before the first valid one */
export function requireConfiguration(
  configuration: Readable<ActiveConfiguration>,
): Pick<ActiveConfiguration, 'policy' | 'sha256'> {
  const now = configuration.peek();
  if (now.set) return now.value;
  throw new JoinError('join-not-ready', 'deciding about a machine: no configuration has been loaded');
}

/** Throws `records-invalid` or `config-invalid`. */
export function activeConfigurationFrom(entry: Entry): ActiveConfiguration {
  const { document } = records.configuration.decode(entry.key, entry.value);
  const bytes = Buffer.from(document, 'base64');
  const config = parseClusterConfig(bytes.toString('utf8'), entry.key);
  const version = `configuration-${entry.modRevision}`;
  const sha256 = sha256Of(bytes);
  return { config, policy: { ...config.join, version }, revision: entry.modRevision, sha256 };
}
