import { describeError } from '../../internal/errors/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { ENCRYPTABLE_RESOURCES, type KeySet } from '../../internal/keyset/index.ts';
import {
  countObjects,
  KubernetesError,
  readFirstEncryption,
  type EncryptedEtcd,
} from '../kubernetes/index.ts';
import { ofGeneration } from './credentials.ts';
import { inconclusive, type Verdict } from './endpoints.ts';

/** The place of this probe in reports; there is no endpoint. */
export const ENCRYPTED_DATA = 'kubernetes-etcd-data';
/** The name of the encryption key in reports. */
export const ENCRYPTION_CREDENTIAL = 'encryption-key';

/**
 * Tests what a copy of the encryption key of a generation is good for: reads every stored value of Kubernetes from the local etcd
 * member, and counts those that are encrypted with the key. "Refused" means that there is none.
 */
export async function probeEncryptedObjects(
  from: {
    readonly etcd: Pick<EncryptedEtcd, 'get' | 'keys'>;
    readonly files: FilePort;
    readonly keys: Pick<KeySet, 'generation' | 'encryption'>;
  },
  generation: number,
  signal: AbortSignal,
): Promise<Verdict> {
  try {
    // Before its first rotation, the cluster has one encryption key in all generations.
    const { encryption } = from.keys;
    const key = encryption
      ? ofGeneration(generation, from.keys, encryption)
      : (await readFirstEncryption(from.files)).key;
    if (key === undefined)
      return inconclusive('the name of the encryption key of this generation is unknown');
    const options = { etcd: from.etcd, resources: ENCRYPTABLE_RESOURCES, keyName: key.name };
    const { objects, others } = await countObjects(options, signal);
    const detail = `it decrypts ${objects - others} of ${objects} stored secrets and ConfigMaps`;
    if (objects === 0) return inconclusive(detail);
    return { outcome: objects === others ? 'refused' : 'admitted', detail };
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error;
    return inconclusive(describeError(error));
  }
}
