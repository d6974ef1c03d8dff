import { ConfigError, DEFAULTS, type ClusterConfig } from '../../internal/config/index.ts';
import { RecordError } from '../../internal/records/index.ts';
import { SignerError } from './errors.ts';
import type { StoredConfiguration } from './stored-configuration.ts';

/** Minutes per day: the configuration has minutes, and certificates have days. */
export const MINUTES_PER_DAY = 24 * 60;

/** How long certificates are valid, from the configuration. */
export class Lifetimes {
  readonly #configuration: StoredConfiguration;

  constructor(configuration: StoredConfiguration) {
    this.#configuration = configuration;
  }

  /** The current settings. @throws as `StoredConfiguration.now` */
  async now(signal: AbortSignal): Promise<ClusterConfig['certificates']> {
    return (await this.#configuration.now(signal)).config.certificates;
  }

  /**
   * The certificate lifetime for operators. An invalid configuration counts as the default, so that an
   * operator can still log in and correct it.
   */
  async operatorDays(signal: AbortSignal): Promise<number> {
    try {
      return (await this.now(signal)).operatorMinutes / MINUTES_PER_DAY;
    } catch (error) {
      const isUnreadable = [ConfigError, RecordError, SignerError].some((kind) => error instanceof kind);
      if (!isUnreadable) throw error;
      return DEFAULTS.operatorCertificateMinutes / MINUTES_PER_DAY;
    }
  }
}
