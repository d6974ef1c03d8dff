import { parseClusterConfig, type ClusterConfig } from '../../../internal/config/index.ts';
import { watchKey, type Entry, type KeySpace } from '../../../internal/etcd/index.ts';
import { EventValue, type Readable } from '../../../internal/event/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { CONFIGURATION_KEY, records } from '../../../internal/records/index.ts';
import { sha256Of, type OwnerDocuments } from '../../ownerdocs/index.ts';
import { JoinError } from '../errors.ts';
import type { JoinPolicy } from './decide-join.ts';

/** The cluster configuration that currently applies. It is replaced as a whole; an invalid document changes nothing. */
export interface ActiveConfiguration {
  readonly config: ClusterConfig;
  readonly policy: JoinPolicy;
  /** The etcd revision at which the document was written; names it in the audit log. */
  readonly revision: bigint;
  /** SHA-256 of the exact bytes of the document, hex. Owners sign this hash. */
  readonly sha256: string;
}

/** Dependencies of the source, and its callback for a new configuration. */
interface ConfigurationSourceOptions {
  readonly etcd: KeySpace;
  readonly log: Logger;
  readonly ownerDocs: Pick<OwnerDocuments, 'whyConfigurationNotInEffect'>;
  /** If it throws, the document counts as invalid and the previous one stays in use. */
  readonly onChange?: (active: ActiveConfiguration) => void;
}

/**
 * Watches the configuration in etcd and provides the newest valid one. In a cluster whose owner has signed a
 * configuration, only a signed configuration is applied. An unsigned one must have been written to etcd without a
 * curator.
 */
export class ActiveConfigurationSource {
  /** The newest stored configuration; it may not be applied, for example because its signature is missing. */
  #stored: Entry | undefined;
  readonly #changes = new EventValue<number>();
  #changed = 0;
  readonly #options: ConfigurationSourceOptions;
  readonly #current = new EventValue<ActiveConfiguration>();

  constructor(options: ConfigurationSourceOptions) {
    this.#options = options;
  }

  /** Unset until the first valid document. */
  get current(): Readable<ActiveConfiguration> {
    return this.#current;
  }

  /** Watches until the signal fires. */
  async run(signal: AbortSignal): Promise<never> {
    const apply = (entry: Entry | undefined): void => {
      this.#stored = entry;
      this.recheck();
    };
    await Promise.all([
      watchKey(this.#options.etcd, CONFIGURATION_KEY, { signal, apply }),
      this.#follow(signal),
    ]);
    throw new Error('the watch of the configuration ended');
  }

  /** Tries again to apply the stored configuration. Called when an owner document was stored. */
  recheck(): void {
    this.#changes.set(++this.#changed);
  }

  async #follow(signal: AbortSignal): Promise<never> {
    using watcher = this.#changes.watch();
    for (;;) {
      await watcher.next(signal);
      await this.#apply(this.#stored, signal);
    }
  }

  async #apply(entry: Entry | undefined, signal: AbortSignal): Promise<void> {
    const { log, onChange, ownerDocs } = this.#options;
    const before = this.#current.peek();
    if (entry === undefined) return;
    if (before.set && before.value.revision === entry.modRevision) return;
    const kept = before.set ? before.value.policy.version : 'none';
    const about = { revision: entry.modRevision, kept };
    let now: ActiveConfiguration;
    try {
      now = activeConfigurationFrom(entry);
    } catch (error) {
      log.error('configuration invalid, keeping the previous one', { ...about, error });
      return;
    }
    const why = await ownerDocs.whyConfigurationNotInEffect(now.sha256, signal);
    if (why !== undefined) {
      log.error('configuration not signed by an owner, keeping the previous one', { ...about, why });
      return;
    }
    try {
      onChange?.(now);
      this.#current.set(now);
      const { version, policy } = now.policy;
      log.info('configuration applied', { version, policy });
    } catch (error) {
      log.error('configuration invalid, keeping the previous one', { ...about, error });
    }
  }
}

/** The current configuration. @throws JoinError `join-not-ready` before the first valid one */
export function requireConfiguration(
  configuration: Readable<ActiveConfiguration>,
): Pick<ActiveConfiguration, 'policy' | 'sha256'> {
  const now = configuration.peek();
  if (now.set) return now.value;
  throw new JoinError('join-not-ready', 'checking a machine: no configuration has been loaded');
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
