import { ConfigError, DEFAULTS, type ClusterConfig } from '../../internal/config/index.ts';
import { RecordError } from '../../internal/records/index.ts';
import { SignerError } from './errors.ts';
import type { StoredConfiguration } from './stored-configuration.ts';

export const MINUTES_PER_DAY = 24 * 60;

/** How long certificates are valid, by the operators' document. */
export class Lifetimes {
  readonly #configuration: StoredConfiguration;

  constructor(configuration: StoredConfiguration) {
    this.#configuration = configuration;
  }

  async now(signal: AbortSignal): Promise<ClusterConfig['certificates']> {
    return (await this.#configuration.now(signal)).config.certificates;
  }

  /** Of what operators show. A document that cannot be read has the default: who is to mend it must not be locked out by it. */
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
