import type { FilePort } from '../../internal/file/index.ts';
import { placeEtcdKeys } from '../consensus/index.ts';
import { placeKubernetesKeys } from '../kubernetes/index.ts';
import type { KeyStore } from './key-store.ts';

/**
 * Puts the keys that control planes share where etcd and Kubernetes read them, as far as the rotation is that this node has
 * on disk. To be done before either is started, and with each phase: an earlier life may have ended in the middle.
 */
export async function installSharedKeys(
  files: FilePort,
  store: Pick<KeyStore, 'loadSet'>,
  stateDir: string,
): Promise<void> {
  const set = await store.loadSet();
  if (set === undefined) return;
  await placeEtcdKeys(files, stateDir, set);
  await placeKubernetesKeys(files, set);
}
