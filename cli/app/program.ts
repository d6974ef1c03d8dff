import { Option, type Command } from 'commander';
import type { ActionBinder } from './command.ts';
import { fileDescriptor } from '../commands/flags.ts';
import { EVENT_OUTPUTS, OUTPUT_FORMATS, TEXT_WIDTH } from '../host/index.ts';
import { HelpCommand } from './help-text.ts';
import type { CommandEntry } from './registry.ts';

/** Dependencies of the parser. */
export interface ProgramOptions {
  readonly version: string;
  readonly entries: readonly CommandEntry[];
  /** Whether to load the module of a command. Commands that are not loaded are only listed in the help. */
  readonly loads: (name: string) => boolean;
  readonly action: ActionBinder;
  /** Writes requested help. */
  readonly write: (text: string) => void;
  /** Writes the help of a group, when its subcommand is missing. */
  readonly writeGroupHelp: (text: string) => void;
}

/** The parser with all commands and their texts, for pages, completions and tests. Its actions do nothing. */
export function createInertProgram(entries: readonly CommandEntry[]): Promise<Command> {
  return createProgram({
    version: '',
    entries,
    loads: () => true,
    action: () => async () => undefined,
    write: () => undefined,
    writeGroupHelp: () => undefined,
  });
}

/** Creates the parser. It throws usage errors instead of printing them and ending the process. */
export async function createProgram(options: ProgramOptions): Promise<Command> {
  const program = new HelpCommand('cluster')
    .description('Create and operate attested Kubernetes clusters on Linux machines.')
    .version(options.version, '--version', 'print the version')
    .option(
      '-w, --workspace <dir>',
      'directory with the files of the cluster (default: see `cluster context --help`)',
    )
    .option('--context <name>', 'use the workspace of this context (see `cluster context ls`)')
    .option('--identity <file>', 'operator identity to use (default: the identity of the workspace)')
    .addOption(
      new Option('-o, --output <format>', 'output format; `wide` and `name` are for lists')
        .choices(OUTPUT_FORMATS)
        .default('human'),
    )
    .option('--no-headers', 'print tables without a header')
    .addOption(
      new Option('--events <where>', 'with --output json: where messages and progress go')
        .choices(EVENT_OUTPUTS)
        .default('stderr'),
    )
    .option('--passphrase-fd <n>', 'read the passphrase of the keys from this descriptor', fileDescriptor)
    .option('--no-input', 'never prompt; use the default answers')
    .option('-v, --verbose', 'show error codes, details and stack traces')
    .helpCommand(false)
    .exitOverride()
    .configureOutput({
      writeOut: options.write,
      writeErr: options.writeGroupHelp,
      outputError: () => undefined,
      getOutHelpWidth: () => TEXT_WIDTH,
      getErrHelpWidth: () => TEXT_WIDTH,
    })
    .addHelpText(
      'after',
      '\nFirst steps: `cluster config generate`, then `cluster init`.\nExit codes: `cluster help exit-codes`.',
    );
  for (const entry of options.entries) {
    const command = program.command(entry.name).description(entry.summary);
    if (options.loads(entry.name)) (await entry.load()).register(command, options.action);
    else command.allowUnknownOption().allowExcessArguments();
  }
  return program;
}
