import type { Argument, Command, Option } from 'commander';
import { commandPath } from './find-command.ts';

/** The help of a command as data, for programs and for man pages. */
export type CommandDescription = ReturnType<typeof describeCommand>;

/** Describes a command. The options of the program itself are also options of every command. */
export function describeCommand(command: Command) {
  return {
    /** The words of the command, such as "node ls"; empty for the program. */
    command: commandPath(command),
    summary: command.description(),
    usage: ['cluster', commandPath(command), command.usage()].filter((word) => word !== '').join(' '),
    arguments: command.registeredArguments.map(describeArgument),
    options: command.options.map(describeOption),
    subcommands: command.commands.map((each) => ({ name: each.name(), summary: each.description() })),
  };
}

function describeArgument(argument: Argument) {
  return {
    name: argument.name(),
    required: argument.required,
    repeated: argument.variadic,
    description: argument.description,
    choices: argument.argChoices ?? [],
  };
}

function describeOption(option: Option) {
  const { flags, description, argChoices: choices = [], defaultValueDescription } = option;
  const preset: unknown = defaultValueDescription ?? option.defaultValue;
  return { flags, description, choices, ...(preset === undefined ? {} : { default: preset }) };
}
