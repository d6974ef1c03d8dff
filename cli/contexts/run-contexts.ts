import { resolve } from 'node:path';
import type { CommandContext } from '../app/command.ts';
import { readContexts, writeContexts } from './contexts-file.ts';
import { ContextsError } from './errors.ts';
import { isWorkspace, listContexts } from './known-contexts.ts';

/** `cluster context ls`. */
export async function runContextList({ host, ports, paths }: CommandContext): Promise<void> {
  const contexts = await listContexts(ports.files, paths);
  host.list({
    data: { contexts },
    items: contexts,
    nameOf: ({ name }) => name,
    empty: 'No contexts found. Add one with `cluster context add NAME DIRECTORY`.',
    columns: [
      { title: 'CURRENT', textOf: ({ isCurrent }) => (isCurrent ? '*' : '') },
      { title: 'NAME', textOf: ({ name }) => name },
      { title: 'WORKSPACE', textOf: ({ workspace }) => workspace },
    ],
  });
}

/**
 * `cluster context add`: gives a workspace a name. Repeatable. @param directory default: the workspace of the command
 * @throws ContextsError `contexts-no-workspace`, `contexts-taken`
 */
export async function runContextAdd(
  { host, ports: { files }, paths }: CommandContext,
  name: string,
  directory: string | undefined,
): Promise<void> {
  const workspace = directory === undefined ? paths.workspace : resolve(directory);
  if (!(await isWorkspace(files, workspace)))
    throw new ContextsError('contexts-no-workspace', `${workspace} is no workspace`);
  const contexts = await readContexts(files, paths.config);
  const other = Object.hasOwn(contexts.workspaces, name) ? contexts.workspaces[name] : undefined;
  if (other !== undefined && other !== workspace)
    throw new ContextsError('contexts-taken', `the context name ${name} is taken by workspace ${other}`);
  const workspaces = { ...contexts.workspaces, [name]: workspace };
  await writeContexts(files, paths.config, { ...contexts, workspaces });
  host.result({ context: name, workspace }, () => `Context ${name} is workspace ${workspace}.`);
}

/**
 * `cluster context use`: commands that run outside of a workspace then use this context. @throws ContextsError
 * `contexts-unknown`
 */
export async function runContextUse(
  { host, ports: { files }, paths }: CommandContext,
  name: string,
): Promise<void> {
  const found = (await listContexts(files, paths)).find((each) => each.name === name);
  if (found === undefined)
    throw new ContextsError('contexts-unknown', `context ${JSON.stringify(name)} not found`);
  await writeContexts(files, paths.config, { ...(await readContexts(files, paths.config)), current: name });
  const { workspace } = found;
  host.result({ context: name, workspace }, () => `Current context: ${name}, workspace ${workspace}.`);
}

/** `cluster context remove`: forgets a name. The workspace stays. @throws ContextsError `contexts-unknown` */
export async function runContextRemove(
  { host, ports: { files }, paths }: CommandContext,
  name: string,
): Promise<void> {
  const { current, workspaces, ...rest } = await readContexts(files, paths.config);
  if (!Object.hasOwn(workspaces, name))
    throw new ContextsError('contexts-unknown', `context ${JSON.stringify(name)} not found`);
  const others = Object.fromEntries(Object.entries(workspaces).filter(([each]) => each !== name));
  const kept = current === undefined || current === name ? {} : { current };
  await writeContexts(files, paths.config, { ...rest, ...kept, workspaces: others });
  host.result({ context: name, removed: true }, () => `Context ${name} removed; its workspace stays.`);
}
