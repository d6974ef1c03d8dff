import { CodedError } from '../../../internal/errors/index.ts';
import type { Entry } from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';

/** The configuration document as etcd has it. */
export interface StoredConfiguration {
  readonly document: Uint8Array<ArrayBuffer>;
  readonly updatedMs: number;
  readonly updatedBy: string;
}

/**
 * Reads the stored configuration. If the record is invalid, returns its raw bytes without an author, so that
 * an operator can see and replace it.
 */
export function storedConfiguration({ key, value }: Entry): StoredConfiguration {
  try {
    const { document, updatedMs, updatedBy } = records.configuration.decode(key, value);
    return { document: new Uint8Array(Buffer.from(document, 'base64')), updatedMs, updatedBy };
  } catch (error) {
    if (!(error instanceof CodedError && error.code === 'records-invalid')) throw error;
    return { document: new Uint8Array(value), updatedMs: 0, updatedBy: '' };
  }
}
