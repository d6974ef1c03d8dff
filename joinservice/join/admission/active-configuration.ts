import { parseClusterConfig, type ClusterConfig } from '../../../internal/config/index.ts';
import { watchKey, type Entry, type KeySpace } from '../../../internal/etcd/index.ts';
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

/** Ports of the source, and its callback for a new configuration. */
interface ConfigurationSourceOptions {
  readonly etcd: KeySpace;
  readonly log: Logger;
  /** May throw, which makes the document invalid: the previous one stays. */
  readonly onChange?: (active: ActiveConfiguration) => void;
}

/** Watches the configuration in etcd and provides the newest valid one. */
export class ActiveConfigurationSource {
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
  run(signal: AbortSignal): Promise<never> {
    return watchKey(this.#options.etcd, CONFIGURATION_KEY, { signal, apply: (entry) => this.#apply(entry) });
  }

  #apply(entry: Entry | undefined): void {
    const { log, onChange } = this.#options;
    const before = this.#current.peek();
    if (entry === undefined) return;
    if (before.set && before.value.revision === entry.modRevision) return;
    try {
      const now = activeConfigurationFrom(entry);
      onChange?.(now);
      this.#current.set(now);
      log.info('configuration applied', {
        version: now.policy.version,
        policy: now.policy.policy,
      });
    } catch (error) {
      const kept = before.set ? before.value.policy.version : 'none';
      log.error('configuration invalid, keeping the previous one', {
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
