import { createHash } from 'node:crypto';
import { parseClusterConfig, type ClusterConfig } from '../../internal/config/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import { CONFIGURATION_KEY, records } from '../../internal/records/index.ts';
import { readAttestation, type ActiveAttestation } from '../evidence/index.ts';
import { SignerError } from './errors.ts';

export interface StoredConfigurationContent {
  readonly config: ClusterConfig;
  /** Of the exact bytes: what an owner's `policy` document names. */
  readonly sha256: string;
  readonly attestation: () => ActiveAttestation;
}

/** The operators' document. It is read once for each time it was written: it may list a thousand machines. */
export class StoredConfiguration {
  readonly #etcd: KeySpace;
  #known: (StoredConfigurationContent & { readonly modRevision: bigint }) | undefined;

  constructor(etcd: KeySpace) {
    this.#etcd = etcd;
  }

  /** @throws SignerError `signer-not-on-record`; ConfigError and RecordError for one that cannot be read */
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
      sha256: createHash('sha256').update(bytes).digest('hex'),
      attestation: () => (attestation ??= readAttestation(config)),
    };
    return this.#known;
  }
}
