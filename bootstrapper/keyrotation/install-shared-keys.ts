import { readText, type FilePort } from '../../internal/file/index.ts';
import { signingClusterCa, type KeySet } from '../../internal/keyset/index.ts';
import { placeEtcdKeys } from '../consensus/index.ts';
import { placeKubernetesKeys } from '../kubernetes/index.ts';
import type { KeyStore } from './key-store.ts';

/**
 * Copies the shared keys to the files of the agent, etcd and Kubernetes, for the phase that is on disk. Runs in each
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
  await placeClusterCa(files, stateDir, set);
  await placeEtcdKeys(files, stateDir, set);
  await placeKubernetesKeys(files, set);
}

/**
 * Writes the signing CA of the cluster in every phase, even in `distribute`, which does not change it. The key files in
 * a ticket are not signed by an owner, but the keys in the set are.
 */
async function placeClusterCa(files: FilePort, stateDir: string, set: KeySet): Promise<void> {
  const pair = signingClusterCa(set);
  if (pair === undefined) return;
  const [certFile, keyFile] = [`${stateDir}/ca/ca.crt`, `${stateDir}/ca/ca.key`];
  const isThere = async (path: string, text: string): Promise<boolean> =>
    (await readText(files, path)) === text;
  if ((await isThere(certFile, pair.public)) && (await isThere(keyFile, pair.private.reveal()))) return;
  await files.makeDirectory(`${stateDir}/ca`);
  // After a crash in between, the next run writes both again.
  await files.writeAtomic(keyFile, pair.private.reveal());
  await files.writeAtomic(certFile, pair.public);
}
