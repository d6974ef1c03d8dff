import type { FilePort } from '../../internal/file/index.ts';
import { settleEtcd } from '../consensus/index.ts';
import { settleKubernetes } from '../kubernetes/index.ts';
import type { KeyStore } from './key-store.ts';

/**
 * Puts the keys that control planes share where etcd and Kubernetes read them, as far as the rotation is that this node has
 * on disk. To be done before either is started, and with each phase: an earlier life may have ended in the middle.
 */
export async function settleSharedKeys(
  files: FilePort,
  store: Pick<KeyStore, 'loadSet'>,
  stateDir: string,
): Promise<void> {
  const set = await store.loadSet();
  if (set === undefined) return;
  await settleEtcd(files, stateDir, set);
  await settleKubernetes(files, set);
}
