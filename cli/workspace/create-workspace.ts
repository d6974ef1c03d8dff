import type { FilePort } from '../../internal/file/index.ts';
import { WorkspaceError } from './errors.ts';
import { createMasterSecret, createOwnerKey, readMasterSecret, readOwnerKey, type OwnerKey } from './keys.ts';
import type { WorkspaceLayout } from './layout.ts';
import type { StateFile } from './state-file.ts';

/** Result of `createWorkspace`. */
export interface CreatedWorkspace {
  readonly ownerKey: OwnerKey;
  /** Absolute paths of the files that were created. */
  readonly created: readonly string[];
}

/**
 * Creates the missing files of a workspace, cluster.yaml last, so that a directory with cluster.yaml also has the keys. Existing
 * files are not changed: an interrupted run can be repeated. The caller holds the workspace lock.
 * @throws WorkspaceError `workspace-key-lost` when a key of an existing cluster is missing
 */
export async function createWorkspace(
  files: FilePort,
  layout: WorkspaceLayout,
  options: { readonly configText: string; readonly state: StateFile },
): Promise<CreatedWorkspace> {
  await files.makeDirectory(layout.root);
  if (options.state.value.init !== undefined) await refuseLostKeys(files, layout);
  const written: [path: string, isNew: boolean][] = [
    [layout.ownerKey, await createOwnerKey(files, layout)],
    [layout.masterSecret, await createMasterSecret(files, layout)],
    [layout.config, await files.createExclusive(layout.config, options.configText, { mode: 0o644 })],
  ];
  await readMasterSecret(files, layout);
  return {
    ownerKey: await readOwnerKey(files, layout),
    created: written.filter(([, isNew]) => isNew).map(([path]) => path),
  };
}

async function refuseLostKeys(files: FilePort, layout: WorkspaceLayout): Promise<void> {
  for (const path of [layout.ownerKey, layout.masterSecret]) {
    if ((await files.stat(path)) !== undefined) continue;
    throw new WorkspaceError('workspace-key-lost', `${path} is missing`);
  }
}
