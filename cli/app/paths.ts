import { join, resolve } from 'node:path';
import type { CommandPaths } from './command.ts';

/**
 * Directories by the XDG base directory specification, which ignores relative and empty variables. The
 * workspace is that of the flag, else that of CLUSTER_WORKSPACE, else the current directory.
 */
export function pathsFrom(options: {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly home: string;
  readonly cwd: string;
  readonly workspace: string | undefined;
  readonly identity: string | undefined;
}): CommandPaths {
  const { env, home, cwd, workspace, identity } = options;
  const xdg = (name: string, fallback: string): string => {
    const value = env[name] ?? '';
    return join(value.startsWith('/') ? value : join(home, fallback), 'cluster');
  };
  return {
    cache: xdg('XDG_CACHE_HOME', '.cache'),
    data: xdg('XDG_DATA_HOME', '.local/share'),
    config: xdg('XDG_CONFIG_HOME', '.config'),
    workspace: resolve(cwd, workspace ?? env['CLUSTER_WORKSPACE'] ?? ''),
    identity: identity === undefined ? undefined : resolve(cwd, identity),
  };
}
