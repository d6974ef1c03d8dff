/**
 * Contexts: names for workspaces, of which one is current, in `$XDG_CONFIG_HOME/cluster/contexts.json`. Local clusters have contexts
 * without an entry there. `cluster context …` writes the file; every command reads it once, to find its workspace.
 *
 *     --context NAME ─▶ --workspace, CLUSTER_WORKSPACE ─▶ the current directory, if it is a workspace ─▶ the current context
 */
export { chooseWorkspace } from './choose-workspace.ts';
export { NAME_KINDS, runCompletionNames, type NameKind } from './completion-names.ts';
export { ContextsError, contextsErrors } from './errors.ts';
export { runContextAdd, runContextList, runContextRemove, runContextUse } from './run-contexts.ts';
