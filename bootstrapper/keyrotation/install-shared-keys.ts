import type { FilePort } from '../../internal/file/index.ts';
import { placeEtcdKeys } from '../consensus/index.ts';
import { placeKubernetesKeys } from '../kubernetes/index.ts';
import type { KeyStore } from './key-store.ts';

/**
 * Copies the shared keys to the files of etcd and Kubernetes, for the phase that is on disk. Runs in each
 * phase, and before etcd and Kubernetes are started, because an earlier run of the agent may have ended in
 * between.
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
