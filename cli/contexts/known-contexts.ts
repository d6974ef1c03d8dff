import { join } from 'node:path';
import type { FilePort } from '../../internal/file/index.ts';
import { layoutOf } from '../workspace/index.ts';
import { readContexts } from './contexts-file.ts';

/** Names of the contexts of local clusters begin with this. */
const LOCAL = 'mini/';

/** A context as people and programs see it. */
export interface KnownContext {
  readonly name: string;
  /** The directory of the workspace, absolute. */
  readonly workspace: string;
  readonly isCurrent: boolean;
}

type Reads = Pick<FilePort, 'read' | 'list' | 'stat'>;

/** The directories of the user that contexts are read from. */
export interface UserDirectories {
  readonly config: string;
  readonly data: string;
}

/** All contexts by name: those of the user, and `mini/NAME` for each local cluster. @throws ContextsError */
export async function listContexts(
  files: Reads,
  { config, data }: UserDirectories,
): Promise<readonly KnownContext[]> {
  const { current, workspaces } = await readContexts(files, config);
  const root = join(data, 'mini');
  const local = (await files.list(root)).map((name) => [`${LOCAL}${name}`, join(root, name, 'workspace')]);
  const found = [];
  for (const [name = '', workspace = ''] of local)
    if (await isWorkspace(files, workspace)) found.push({ name, workspace });
  return [...Object.entries(workspaces).map(([name, workspace]) => ({ name, workspace })), ...found]
    .map((each) => ({ ...each, isCurrent: each.name === current }))
    .toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
}

/** Whether a directory has the files of a workspace: a configuration, or the identity of an operator. */
export async function isWorkspace(files: Pick<FilePort, 'stat'>, directory: string): Promise<boolean> {
  const { config, identity } = layoutOf(directory);
  return [await files.stat(config), await files.stat(identity)].some((stat) => stat?.kind === 'file');
}
