import type { MasterSecret } from '../../internal/crypto/index.ts';
import { WorkspaceError } from './errors.ts';
import { readMasterSecret, readOwnerKey, renderMasterSecret, type OwnerKey } from './keys.ts';
import type { WorkspaceLayout } from './layout.ts';
import { createSecretFile, isSealedFile, type SecretAccess } from './secret-file.ts';

/** The content of a workspace of an existing cluster. */
export interface AdoptedWorkspace {
  readonly ownerKey: OwnerKey;
  readonly masterSecret: MasterSecret;
  readonly configText: string;
}

/** The owner key in a file outside of a workspace. @throws as `readOwnerKey` */
export function readOwnerKeyFile(access: SecretAccess, path: string): Promise<OwnerKey> {
  return readOwnerKey(access, { ownerKey: path });
}

/**
 * Creates the files of a workspace for an existing cluster, cluster.yaml last. What an interrupted run has created stays. If the
 * file with the owner key is encrypted, both secrets are encrypted with its passphrase. The caller holds the workspace lock.
 * @throws WorkspaceError `workspace-other-cluster` when the directory has other keys
 */
export async function adoptWorkspace(
  access: SecretAccess,
  layout: WorkspaceLayout,
  { ownerKey, masterSecret, configText, keyPath }: AdoptedWorkspace & { readonly keyPath: string },
): Promise<void> {
  const { files } = access.ports;
  const passphrase = (await isSealedFile(files, keyPath))
    ? await access.passphrases.current(keyPath)
    : undefined;
  const master = renderMasterSecret(masterSecret);
  const key = { text: ownerKey.keyPem, kind: 'owner-key', passphrase } as const;
  await createSecretFile(files, layout.ownerKey, key);
  await createSecretFile(files, layout.masterSecret, { text: master, kind: 'master-secret', passphrase });
  const [ownKey, ownMaster] = [
    await readOwnerKey(access, layout),
    renderMasterSecret(await readMasterSecret(access, layout)),
  ];
  if (ownKey.pubKeyBase64 !== ownerKey.pubKeyBase64 || ownMaster.reveal() !== master.reveal())
    throw new WorkspaceError('workspace-other-cluster', `${layout.root} has the keys of another cluster`);
  await files.createExclusive(layout.config, configText, { mode: 0o644 });
}
