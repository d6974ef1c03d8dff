import type { FilePort } from '../../internal/file/index.ts';
import { readContexts } from './contexts-file.ts';
import { ContextsError } from './errors.ts';
import { isWorkspace, listContexts, type UserDirectories } from './known-contexts.ts';

/** How a command names its workspace. */
interface Choice extends UserDirectories {
  /** The workspace of `--workspace`, of CLUSTER_WORKSPACE, or the current directory; absolute. */
  readonly workspace: string;
  /** Whether `--workspace` or CLUSTER_WORKSPACE names it. */
  readonly isNamed: boolean;
  /** The value of `--context`. */
  readonly context: string | undefined;
}

/**
 * The workspace of a command: the workspace of `--context`; else the workspace of `--workspace` or CLUSTER_WORKSPACE;
 * else the current directory, if it is a workspace; else the workspace of the current context; else the current
 * directory.
 */
export async function chooseWorkspace(
  files: Pick<FilePort, 'read' | 'list' | 'stat'>,
  { workspace, isNamed, context, ...directories }: Choice,
): Promise<string> {
  if (context === undefined) {
    if (isNamed || (await isWorkspace(files, workspace))) return workspace;
    if ((await readContexts(files, directories.config)).current === undefined) return workspace;
  }
  const known = await listContexts(files, directories);
  const wanted = known.find(({ name, isCurrent }) => (context === undefined ? isCurrent : name === context));
  if (wanted !== undefined) return wanted.workspace;
  const which = context === undefined ? 'current context' : `context ${JSON.stringify(context)}`;
  throw new ContextsError('contexts-unknown', `${which} not found`);
}
