import { parseArgs } from 'node:util';
import { EVENT_OUTPUTS, OUTPUT_FORMATS, type HostFlags } from '../host/index.ts';

/** Flags that every command accepts, before or after its name. */
export interface GlobalFlags extends HostFlags {
  readonly workspace: string | undefined;
  readonly context: string | undefined;
  readonly identity: string | undefined;
  /** `--passphrase-fd`, which the parser of the program validates; undefined when not given. */
  readonly passphraseFd: number | undefined;
}

/** The part of a command line that can be parsed before any command is loaded. */
export interface PreparsedArgs {
  readonly flags: GlobalFlags;
  /** Words that are neither flags nor values of global flags. May contain values of a command's own flags. */
  readonly words: readonly string[];
  readonly help: boolean;
  readonly version: boolean;
}

/**
 * Parses the global flags and ignores the rest: the host must exist before the parser can report errors, and only the requested
 * command is loaded.
 */
export function preparseArgs(args: readonly string[]): PreparsedArgs {
  const { values, positionals } = parseArgs({
    args: [...args],
    strict: false,
    allowPositionals: true,
    allowNegative: true,
    options: {
      workspace: { type: 'string', short: 'w' },
      context: { type: 'string' },
      identity: { type: 'string' },
      'passphrase-fd': { type: 'string' },
      output: { type: 'string', short: 'o' },
      events: { type: 'string' },
      headers: { type: 'boolean' },
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
      context: typeof values['context'] === 'string' ? values['context'] : undefined,
      identity: typeof values['identity'] === 'string' ? values['identity'] : undefined,
      passphraseFd: typeof values['passphrase-fd'] === 'string' ? Number(values['passphrase-fd']) : undefined,
      output: oneOf(OUTPUT_FORMATS, values['output']) ?? 'human',
      events: oneOf(EVENT_OUTPUTS, values['events']) ?? 'stderr',
      headers: values['headers'] !== false,
      input: values['input'] !== false,
      verbose: values['verbose'] === true,
    },
  };
}

/** The choice that a flag names; undefined for any other value, which the parser of the program refuses. */
function oneOf<T extends string>(choices: readonly T[], value: unknown): T | undefined {
  return choices.find((choice) => choice === value);
}
