import type { Command } from 'commander';

/** The command that the words name, and the first word that names no command. */
export function findCommand(
  program: Command,
  words: readonly string[],
): { readonly found: Command; readonly unknown: string | undefined } {
  let found = program;
  for (const word of words) {
    const next = found.commands.find((command) => command.name() === word);
    if (next === undefined) return { found, unknown: word };
    found = next;
  }
  return { found, unknown: undefined };
}

/** The words that call a command, without the name of the program, such as "node set-role". */
export function commandPath(command: Command): string {
  const { parent } = command;
  return parent === null ? '' : `${commandPath(parent)} ${command.name()}`.trimStart();
}
