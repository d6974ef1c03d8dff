import { CodedError } from '../../../internal/errors/index.ts';
import type { Entry } from '../../../internal/etcd/index.ts';
import { records } from '../../../internal/records/index.ts';

/** The operator's document as etcd holds it. */
export interface StoredConfiguration {
  readonly document: Uint8Array<ArrayBuffer>;
  readonly updatedMs: number;
  readonly updatedBy: string;
}

/**
 * Of a record that cannot be read all of its bytes, by nobody: whoever is to mend it must see what is there, and a broken
 * one must hold nobody back from putting a good one in its place.
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
