import type { TlsIdentity } from '../rpc/index.ts';
import { tlsKeysFrom, type TlsKeys, type TlsKeySource } from './tls-keys.ts';

/** One certificate for the whole test, whose key the test knows. Throws AtlsError `atls-config` unless its key is P-256. */
export class FixedKeys implements TlsKeySource {
  readonly #keys: TlsKeys;

  constructor(identity: TlsIdentity) {
    this.#keys = tlsKeysFrom(identity);
  }

  current(): Promise<TlsKeys> {
    return Promise.resolve(this.#keys);
  }
}
