import type { ClusterConfig } from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import { layoutOf, lockWorkspace, readConfig, StateFile, type WorkspaceLayout } from '../workspace/index.ts';

/** A locked workspace: no other process may change it. */
export interface OpenWorkspace extends AsyncDisposable {
  readonly layout: WorkspaceLayout;
  readonly state: StateFile;
}

/**
 * Locks the workspace and reads its state. @param command name of the command, shown to other processes that find the
 * workspace locked
 */
export async function openWorkspace(context: CommandContext, command: string): Promise<OpenWorkspace> {
  const { ports, paths, env } = context;
  const { files, clock } = ports;
  const layout = layoutOf(paths.workspace);
  await files.makeDirectory(layout.root);
  const user = env['USER'] ?? env['LOGNAME'] ?? 'unknown user';
  await using opening = new AsyncDisposableStack();
  opening.use(await lockWorkspace(layout, { files, clock, command, user }));
  const state = await StateFile.read(files, layout);
  const opened = opening.move();
  return { layout, state, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Reads a workspace without locking it, for commands that do not change it. */
export async function readWorkspace(context: CommandContext): Promise<{
  readonly layout: WorkspaceLayout;
  readonly state: StateFile;
  readonly config: ClusterConfig;
}> {
  const layout = layoutOf(context.paths.workspace);
  const { files } = context.ports;
  const config = await readConfig(files, layout);
  const state = await StateFile.read(files, layout);
  return { layout, state, config };
}
