import type { Clock } from '../../internal/clock/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Host } from '../host/index.ts';

export type { Host, StepProgress } from '../host/index.ts';

/** The outside world of a command, as ports. */
export interface CommandPorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly clock: Clock;
}

/** Directories of this run, absolute. */
export interface CommandPaths {
  /** `$XDG_CACHE_HOME/cluster`: blobs, bundles. May be deleted at any time. */
  readonly cache: string;
  /** `$XDG_DATA_HOME/cluster`: local clusters. */
  readonly data: string;
  /** `$XDG_CONFIG_HOME/cluster`: settings of the user. */
  readonly config: string;
  /** `--workspace`, or the current directory: one cluster's configuration, state and keys. */
  readonly workspace: string;
  /** `--identity`: who asks the cluster; else whoever the workspace is of. */
  readonly identity?: string | undefined;
}

/** All a command gets. It touches nothing else: no `process`, no streams, no clock of its own. */
export interface CommandContext {
  readonly host: Host;
  readonly ports: CommandPorts;
  readonly paths: CommandPaths;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Fires at the first SIGINT or SIGTERM; its reason says which. */
  readonly signal: AbortSignal;
}

/**
 * What a command does: answers its exit name, or nothing for `ok`; a number only to pass on the exit code of another
 * program. Throws a `CodedError` when it fails.
 */
export type CommandHandler<O> = (
  context: CommandContext,
  options: O,
  ...args: string[]
) => Promise<ExitName | number | void>;

/** Turns a handler into an action of commander: `command.action(bind<InitOptions>(async (context, options) => …))`. */
export type ActionBinder = <O>(handler: CommandHandler<O>) => (...args: unknown[]) => Promise<void>;
