import type { FilePort } from '../../internal/file/index.ts';
import { WorkspaceError } from './errors.ts';
import { createMasterSecret, createOwnerKey, readMasterSecret, readOwnerKey, type OwnerKey } from './keys.ts';
import type { WorkspaceLayout } from './layout.ts';
import type { StateFile } from './state-file.ts';

export interface CreatedWorkspace {
  readonly ownerKey: OwnerKey;
  /** Absolute paths of files that were made now; the others were there and are as they were. */
  readonly created: readonly string[];
}

/**
 * Makes what is missing of a workspace, the configuration last: a directory with `cluster.yaml` has its keys. Nothing that
 * exists is changed, so that a run that was cut off is simply run again. Call it under the workspace lock.
 * @throws WorkspaceError `workspace-key-lost` when keys are missing that a cluster was made with
 */
export async function createWorkspace(
  files: FilePort,
  layout: WorkspaceLayout,
  options: { readonly configText: string; readonly state: StateFile },
): Promise<CreatedWorkspace> {
  await files.makeDirectory(layout.root);
  if (options.state.value.init !== undefined) await refuseLostKeys(files, layout);
  const made: [path: string, made: boolean][] = [
    [layout.ownerKey, await createOwnerKey(files, layout)],
    [layout.masterSecret, await createMasterSecret(files, layout)],
    [layout.config, await files.createExclusive(layout.config, options.configText, { mode: 0o644 })],
  ];
  await readMasterSecret(files, layout);
  return {
    ownerKey: await readOwnerKey(files, layout),
    created: made.filter(([, now]) => now).map(([path]) => path),
  };
}

async function refuseLostKeys(files: FilePort, layout: WorkspaceLayout): Promise<void> {
  for (const path of [layout.ownerKey, layout.masterSecret]) {
    if ((await files.stat(path)) !== undefined) continue;
    throw new WorkspaceError('workspace-key-lost', `completing the workspace: ${path} is gone`);
  }
}
