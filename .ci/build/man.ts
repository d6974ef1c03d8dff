import type { EventEmitter } from 'node:events';
import type { Command } from 'commander';
import { describeCommand, type CommandDescription } from '../../cli/app/describe-command.ts';
import { commandPath } from '../../cli/app/find-command.ts';
import { COMMANDS } from '../../cli/app/index.ts';
import { createInertProgram } from '../../cli/app/program.ts';
import { EXIT_CODES } from '../../internal/errors/index.ts';

/** One manual page: the name of its file, such as "cluster-node-ls.1", and its text (groff_man(7)). */
export interface ManPage {
  readonly name: string;
  readonly text: string;
}

/** The pages of the program and of each command, made from the texts of `--help`. */
export async function collectManPages(version: string, epochSeconds: number): Promise<readonly ManPage[]> {
  const date = new Date(epochSeconds * 1000).toISOString().slice(0, 10);
  return withDescendants(await createInertProgram(COMMANDS)).map((command) => ({
    name: `${pageName(command)}.1`,
    text: manPage(command, { version, date }),
  }));
}

/** The text of a page. Pure, except that it reads the texts which were added to the help of the command. */
export function manPage(
  command: Command,
  { version, date }: { readonly version: string; readonly date: string },
): string {
  const description = describeCommand(command);
  const isProgram = description.command === '';
  const { prose, examples } = splitHelpText(textAfterHelp(command));
  const title = pageName(command).toUpperCase();
  const sections: readonly (readonly [string, readonly string[]])[] = [
    ['NAME', [`${escape(pageName(command))} \\- ${escape(description.summary.replace(/\.$/, ''))}`]],
    ['SYNOPSIS', ['.nf', escape(description.usage), '.fi']],
    ['DESCRIPTION', [escape(sentence(description.summary)), ...prose.flatMap((each) => ['.PP', ...each])]],
    ['ARGUMENTS', description.arguments.flatMap(argumentLines)],
    ['OPTIONS', description.options.flatMap(optionLines)],
    ['COMMANDS', description.subcommands.flatMap(({ name, summary }) => tagged(bold(name), summary))],
    ['EXIT STATUS', isProgram ? exitCodeLines() : [exitReference()]],
    ['ENVIRONMENT', isProgram ? ENVIRONMENT.flatMap(([name, text]) => tagged(bold(name), text)) : []],
    ['FILES', isProgram ? FILES.flatMap(([name, text]) => tagged(italic(name), text)) : []],
    ['EXAMPLES', examples],
    ['SEE ALSO', seeAlso(command)],
  ];
  return [
    `.TH "${escape(title)}" "1" "${date}" "cluster ${version}" "User Commands"`,
    // Commands and flags are neither hyphenated nor stretched.
    '.nh',
    '.ad l',
    ...sections.flatMap(([name, lines]) => (lines.length === 0 ? [] : [`.SH ${name}`, ...lines])),
    '',
  ].join('\n');
}

const ENVIRONMENT = [
  ['CLUSTER_WORKSPACE', 'the workspace, if neither --context nor --workspace is given'],
  ['XDG_CACHE_HOME', 'components and bundles are in its directory cluster (default: ~/.cache)'],
  ['XDG_DATA_HOME', 'local clusters are in its directory cluster (default: ~/.local/share)'],
  ['XDG_CONFIG_HOME', 'settings of the user are in its directory cluster (default: ~/.config)'],
  ['NO_COLOR', 'if set, the output has no colors'],
] as const;

const FILES = [
  ['~/.config/cluster/contexts.json', 'names of workspaces; see cluster-context(1)'],
  ['cluster.yaml', 'the configuration, in the workspace'],
  ['owner-key.pem', 'the owner key, in the workspace: it grants every right in the cluster'],
  ['kubeconfig', 'the kubeconfig of the workspace'],
] as const;

function withDescendants(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withDescendants)];
}

/** "cluster-node-ls" */
function pageName(command: Command): string {
  return ['cluster', ...commandPath(command).split(' ')].filter((word) => word !== '').join('-');
}

function argumentLines(argument: CommandDescription['arguments'][number]): readonly string[] {
  const { name, required, repeated, description, choices } = argument;
  const shown = `${name}${repeated ? '...' : ''}`;
  return tagged(italic(required ? shown : `[${shown}]`), withNotes(description, { choices }));
}

function optionLines({
  flags,
  description,
  ...notes
}: CommandDescription['options'][number]): readonly string[] {
  return tagged(bold(flags), withNotes(description, notes));
}

function withNotes(
  text: string,
  { choices, default: preset }: { readonly choices: readonly string[]; readonly default?: unknown },
): string {
  const notes = [
    ...(choices.length === 0 ? [] : [`one of: ${choices.join(', ')}`]),
    ...(preset === undefined || preset === false ? [] : [`default: ${defaultText(preset)}`]),
  ];
  const whole = notes.length === 0 ? text : `${text} (${notes.join('; ')})`;
  return whole.trim() === '' ? 'see the examples' : whole;
}

function defaultText(preset: unknown): string {
  return typeof preset === 'string' ? preset : JSON.stringify(preset);
}

function exitCodeLines(): readonly string[] {
  return Object.values(EXIT_CODES).flatMap(({ number, meaning }) => tagged(bold(String(number)), meaning));
}

function exitReference(): string {
  return `0 on success. ${reference('cluster')} lists the other exit codes.`;
}

function seeAlso(command: Command): readonly string[] {
  const { parent } = command;
  const related = [
    ...(parent === null ? [] : [parent]),
    ...(command.commands.length > 0 || parent === null ? command.commands : siblings(command, parent)),
  ];
  return [`${related.map((each) => reference(pageName(each))).join(',\n')}`];
}

function siblings(command: Command, parent: Command): readonly Command[] {
  return parent.parent === null ? [] : parent.commands.filter((each) => each !== command);
}

/** A reference to a page: "cluster-node(1)". */
function reference(name: string): string {
  return `\\fB${escape(name)}\\fP(1)`;
}

/** What `addHelpText('after', …)` added to the help of a command: commander emits an event for it. */
function textAfterHelp(command: Command): string {
  let text = '';
  // At run time a command is an EventEmitter; its types do not say so.
  (command as unknown as EventEmitter).emit('afterHelp', {
    error: false,
    command,
    write: (more: string) => void (text += more),
  });
  return text;
}

/** Separates paragraphs from the examples. Indented lines and examples keep their line breaks. */
export function splitHelpText(text: string): {
  readonly prose: readonly (readonly string[])[];
  readonly examples: readonly string[];
} {
  const paragraphs = text
    .split(/\n\s*\n/)
    .map((each) => each.replace(/^\n+|\s+$/g, ''))
    .filter((each) => each !== '');
  const isExamples = (each: string): boolean => /^Examples?:\n/.test(each);
  const examples = paragraphs.filter(isExamples).map((each) => each.slice(each.indexOf('\n') + 1));
  return {
    prose: paragraphs.filter((each) => !isExamples(each)).map(paragraphLines),
    examples: examples.flatMap((each) => verbatim(each.split('\n').map((line) => line.replace(/^ {2}/, '')))),
  };
}

function paragraphLines(paragraph: string): readonly string[] {
  const lines = paragraph.split('\n');
  const first = lines.findIndex((line) => line.startsWith('  '));
  if (first === -1) return lines.map(escape);
  return [...lines.slice(0, first).map(escape), ...verbatim(lines.slice(first))];
}

function verbatim(lines: readonly string[]): readonly string[] {
  return ['.nf', ...lines.map(escape), '.fi'];
}

function tagged(tag: string, text: string): readonly string[] {
  return ['.TP', tag, escape(text)];
}

function bold(text: string): string {
  return `\\fB${escape(text)}\\fP`;
}

function italic(text: string): string {
  return `\\fI${escape(text)}\\fP`;
}

function sentence(summary: string): string {
  const capital = `${summary.slice(0, 1).toUpperCase()}${summary.slice(1)}`;
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}

/** The characters that groff would change, or show as typographic ones (groff_char(7)). */
const CHARACTERS: Readonly<Record<string, string>> = {
  '\\': '\\e',
  '-': '\\-',
  "'": '\\(aq',
  '`': '\\(ga',
  '^': '\\(ha',
  '~': '\\(ti',
  '"': '\\(dq',
};

/** Text as it is typed, in a page: no character is a command or a typographic replacement. */
export function escape(text: string): string {
  const escaped = text
    .replaceAll('\n', ' ')
    .replace(/[\\'`^~"-]/g, (character) => CHARACTERS[character] ?? character)
    .replace(
      /[^\x20-\x7e]/gu,
      (character) => `\\[u${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
    );
  return escaped.startsWith('.') ? `\\&${escaped}` : escaped;
}
