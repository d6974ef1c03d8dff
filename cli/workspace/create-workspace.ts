import type { FilePort } from '../../internal/file/index.ts';
import { WorkspaceError } from './errors.ts';
import { createMasterSecret, createOwnerKey, readMasterSecret, readOwnerKey, type OwnerKey } from './keys.ts';
import type { WorkspaceLayout } from './layout.ts';
import type { Passphrase } from './passphrase.ts';
import { isSealedFile, type SecretAccess } from './secret-file.ts';
import type { StateFile } from './state-file.ts';

/** Result of `createWorkspace`. */
export interface CreatedWorkspace {
  readonly ownerKey: OwnerKey;
  /** Absolute paths of the files that were created. */
  readonly created: readonly string[];
}

/** Contents of a new workspace. */
export interface CreateWorkspaceOptions {
  readonly configText: string;
  readonly state: StateFile;
  /** Encrypt the owner key and the master secret with a passphrase. */
  readonly encrypt?: boolean;
}

/**
 * Creates the missing files of a workspace, cluster.yaml last, so that a directory with cluster.yaml also has the keys. Existing
 * files are not changed: an interrupted run can be repeated. The caller holds the workspace lock.
 * @throws WorkspaceError `workspace-key-lost` when a key of an existing cluster is missing, `workspace-not-encrypted`,
 * `workspace-passphrase-…`
 */
export async function createWorkspace(
  access: SecretAccess,
  layout: WorkspaceLayout,
  options: CreateWorkspaceOptions,
): Promise<CreatedWorkspace> {
  const { files } = access.ports;
  await files.makeDirectory(layout.root);
  if (options.state.value.init !== undefined) await refuseLostKeys(files, layout);
  const passphrase = await choosePassphrase(access, layout, options.encrypt ?? false);
  const written: [path: string, isNew: boolean][] = [
    [layout.ownerKey, await createOwnerKey(files, layout, passphrase)],
    [layout.masterSecret, await createMasterSecret(files, layout, passphrase)],
    [layout.config, await files.createExclusive(layout.config, options.configText, { mode: 0o644 })],
  ];
  const now = passphrase === undefined ? access : { ...access, passphrases: fixedSource(passphrase) };
  await readMasterSecret(now, layout);
  return {
    ownerKey: await readOwnerKey(now, layout),
    created: written.filter(([, isNew]) => isNew).map(([path]) => path),
  };
}

/**
 * The passphrase for the files that are missing; undefined for plain files. If an interrupted run has encrypted one of
 * the two files, the passphrase must open this file and is also used for the other file.
 */
async function choosePassphrase(
  access: SecretAccess,
  layout: WorkspaceLayout,
  encrypt: boolean,
): Promise<Passphrase | undefined> {
  const { files } = access.ports;
  const paths = [layout.ownerKey, layout.masterSecret];
  for (const path of paths) {
    if (!(await isSealedFile(files, path))) continue;
    await (path === layout.ownerKey ? readOwnerKey(access, layout) : readMasterSecret(access, layout));
    return access.passphrases.current(path);
  }
  if (!encrypt) return undefined;
  for (const path of paths) {
    if ((await files.stat(path)) !== undefined)
      throw new WorkspaceError('workspace-not-encrypted', `${path} exists and is not encrypted`);
  }
  return access.passphrases.create({ replaces: false });
}

function fixedSource(passphrase: Passphrase): SecretAccess['passphrases'] {
  return { current: async () => passphrase, create: async () => passphrase };
}

async function refuseLostKeys(files: FilePort, layout: WorkspaceLayout): Promise<void> {
  for (const path of [layout.ownerKey, layout.masterSecret]) {
    if ((await files.stat(path)) !== undefined) continue;
    throw new WorkspaceError('workspace-key-lost', `${path} is missing`);
  }
}
