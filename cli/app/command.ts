import type { Clock } from '../../internal/clock/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort, OutputPort } from '../../internal/file/index.ts';
import type { Host } from '../host/index.ts';
import type { PassphraseSource } from '../workspace/index.ts';

export type { Host, StepProgress } from '../host/index.ts';

/** Access of a command to the outside world. */
export interface CommandPorts {
  readonly files: FilePort & OutputPort;
  readonly commands: CommandRunner;
  readonly clock: Clock;
}

/** Absolute paths of the directories that this run uses. */
export interface CommandPaths {
  /** `$XDG_CACHE_HOME/cluster`: blobs, bundles. May be deleted at any time. */
  readonly cache: string;
  /** `$XDG_DATA_HOME/cluster`: local clusters. */
  readonly data: string;
  /** `$XDG_CONFIG_HOME/cluster`: settings of the user. */
  readonly config: string;
  /** `--workspace`, `$CLUSTER_WORKSPACE` or the current directory: one cluster's configuration, state and keys. */
  readonly workspace: string;
  /** `--identity`: the identity file to use instead of that of the workspace. */
  readonly identity?: string | undefined;
}

/** Everything that a command may use. It must not use `process`, its streams or the system clock directly. */
export interface CommandContext {
  readonly host: Host;
  readonly ports: CommandPorts;
  readonly paths: CommandPaths;
  /** Provides the passphrases that open the encrypted files of the workspace. */
  readonly passphrases: PassphraseSource;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Fires at the first SIGINT or SIGTERM; its reason is an `Interruption`. */
  readonly signal: AbortSignal;
  /**
   * For how long a call is repeated while no curator answers. Every command starts with undefined: then such a call
   * fails at once.
   */
  readonly curatorRetryMs?: number;
  /** How an operator without an owner key gets an owner's signature. Undefined: the cluster refuses what needs one. */
  readonly ownerSignature?: OwnerSignature | undefined;
}

/** `request`: writes the request for a signature to a new file. `signed`: uses what an owner has signed. */
export interface OwnerSignature {
  readonly kind: 'request' | 'signed';
  readonly path: string;
}

/**
 * Runs a command. Returns the exit name, nothing for `ok`, or a number to pass on the exit code of another program. Throws a
 * `CodedError` when the command fails.
 */
export type CommandHandler<O> = (
  context: CommandContext,
  options: O,
  ...args: string[]
) => Promise<ExitName | number | void>;

/** Converts a handler to an action of commander: `command.action(bind<InitOptions>(async (context, options) => …))`. */
export type ActionBinder = <O = object>(handler: CommandHandler<O>) => (...args: unknown[]) => Promise<void>;
