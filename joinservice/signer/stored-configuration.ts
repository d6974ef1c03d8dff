import { MINUTES_PER_DAY } from '../../internal/clock/index.ts';
import {
  ConfigError,
  DEFAULTS,
  kubeletServingMinutes,
  parseClusterConfig,
  type ClusterConfig,
} from '../../internal/config/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { CONFIGURATION_KEY, RecordError, records } from '../../internal/records/index.ts';
import { readAttestation, type ActiveAttestation } from '../evidence/index.ts';
import { sha256Of } from '../ownerdocs/index.ts';
import { SignerError } from './errors.ts';

/** The stored configuration, parsed. */
export interface StoredConfigurationContent {
  readonly config: ClusterConfig;
  /** SHA-256 of the exact bytes, hex, which the `policy` document of an owner contains. */
  readonly sha256: string;
  readonly attestation: () => ActiveAttestation;
}

/** Reads the configuration. It is parsed once for each revision, since it may list a thousand machines. */
export class StoredConfiguration {
  readonly #etcd: KeySpace;
  #known: (StoredConfigurationContent & { readonly modRevision: bigint }) | undefined;

  constructor(etcd: KeySpace) {
    this.#etcd = etcd;
  }

  /** The current configuration. @throws SignerError `signer-not-on-record`; ConfigError and RecordError where it is invalid */
  async now(signal: AbortSignal): Promise<StoredConfigurationContent> {
    const entry = await this.#etcd.get(CONFIGURATION_KEY, { signal });
    if (entry === undefined)
      throw new SignerError('signer-not-on-record', `record ${CONFIGURATION_KEY} not found`);
    const { modRevision, value } = entry;
    if (this.#known?.modRevision === modRevision) return this.#known;
    const { document } = records.configuration.decode(CONFIGURATION_KEY, value);
    const bytes = Buffer.from(document, 'base64');
    const config = parseClusterConfig(bytes.toString('utf8'), CONFIGURATION_KEY);
    let attestation: ActiveAttestation | undefined;
    this.#known = {
      modRevision,
      config,
      sha256: sha256Of(bytes),
      attestation: () => (attestation ??= readAttestation(config)),
    };
    return this.#known;
  }

  /** How many days the certificates of a member are valid. @throws as `now` */
  async memberDays(
    signal: AbortSignal,
  ): Promise<Readonly<Record<'node' | 'kubeletClient' | 'kubeletServing', number>>> {
    const { certificates } = (await this.now(signal)).config;
    return {
      node: certificates.nodeMinutes / MINUTES_PER_DAY,
      kubeletClient: certificates.kubeletMinutes / MINUTES_PER_DAY,
      kubeletServing: kubeletServingMinutes(certificates) / MINUTES_PER_DAY,
    };
  }

  /**
   * How many days certificates of operators are valid. An invalid configuration counts as the default, so that an
   * operator can still log in and correct it.
   */
  async operatorDays(signal: AbortSignal): Promise<number> {
    try {
      return (await this.now(signal)).config.certificates.operatorMinutes / MINUTES_PER_DAY;
    } catch (error) {
      const isUnreadable = [ConfigError, RecordError, SignerError].some((kind) => error instanceof kind);
      if (!isUnreadable) throw error;
      return DEFAULTS.operatorCertificateMinutes / MINUTES_PER_DAY;
    }
  }
}
