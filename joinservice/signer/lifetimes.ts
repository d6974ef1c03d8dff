import {
  ConfigError,
  DEFAULTS,
  parseClusterConfig,
  type ClusterConfig,
} from '../../internal/config/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { CONFIGURATION_KEY, RecordError, records } from '../../internal/records/index.ts';
import { SignerError } from './errors.ts';

export const MINUTES_PER_DAY = 24 * 60;

type Minutes = ClusterConfig['certificates'];

/** How long certificates are valid, by the operators' document. */
export class Lifetimes {
  readonly #etcd: KeySpace;
  #known: { readonly modRevision: bigint; readonly minutes: Minutes } | undefined;

  constructor(etcd: KeySpace) {
    this.#etcd = etcd;
  }

  /** The document is read once for each time it was written: it may list a thousand machines. */
  async now(signal: AbortSignal): Promise<Minutes> {
    const entry = await this.#etcd.get(CONFIGURATION_KEY, { signal });
    if (entry === undefined)
      throw new SignerError('signer-not-on-record', `record ${CONFIGURATION_KEY} not found`);
    const { modRevision, value } = entry;
    if (this.#known?.modRevision === modRevision) return this.#known.minutes;
    const { document } = records.configuration.decode(CONFIGURATION_KEY, value);
    const text = Buffer.from(document, 'base64').toString('utf8');
    const minutes = parseClusterConfig(text, CONFIGURATION_KEY).certificates;
    this.#known = { modRevision, minutes };
    return minutes;
  }

  /** Of what operators show. A document that can't be read has the default: who is to mend it must not be locked out by it. */
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
