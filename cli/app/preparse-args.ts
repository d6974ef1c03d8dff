import { parseArgs } from 'node:util';
import type { HostFlags } from '../host/index.ts';

/** Flags that every command takes, before or after its name. */
export interface GlobalFlags extends HostFlags {
  readonly workspace: string | undefined;
  readonly identity: string | undefined;
}

/** What can be known of a command line before any command is loaded. */
export interface PreparsedArgs {
  readonly flags: GlobalFlags;
  /** Words that are neither flags nor their values; of the flags of commands it knows nothing. */
  readonly words: readonly string[];
  readonly help: boolean;
  readonly version: boolean;
}

/**
 * Reads the global flags without judging the rest: the host must exist before the parser can complain through it, and
 * only the command that was asked for is loaded.
 */
export function preparseArgs(args: readonly string[]): PreparsedArgs {
  const { values, positionals } = parseArgs({
    args: [...args],
    strict: false,
    allowPositionals: true,
    allowNegative: true,
    options: {
      workspace: { type: 'string', short: 'w' },
      identity: { type: 'string' },
      output: { type: 'string', short: 'o' },
      input: { type: 'boolean' },
      verbose: { type: 'boolean', short: 'v' },
      help: { type: 'boolean', short: 'h' },
      version: { type: 'boolean' },
    },
  });
  return {
    words: positionals,
    help: values['help'] === true,
    version: values['version'] === true,
    flags: {
      workspace: typeof values['workspace'] === 'string' ? values['workspace'] : undefined,
      identity: typeof values['identity'] === 'string' ? values['identity'] : undefined,
      output: values['output'] === 'json' ? 'json' : 'human',
      input: values['input'] !== false,
      verbose: values['verbose'] === true,
    },
  };
}
