import { Command, type AddHelpTextContext, type AddHelpTextPosition } from 'commander';
import { TEXT_WIDTH, wrapWords } from '../host/index.ts';

/** A paragraph of help also starts with a label in capitals: `TAKEN: complete, not proved.` */
const LABEL = /^[A-Z][A-Z-]+:/;

type HelpText = string | ((context: AddHelpTextContext) => string);

/** A command whose additional help fits `TEXT_WIDTH`, and so do its subcommands. */
export class HelpCommand extends Command {
  override createCommand(name?: string): HelpCommand {
    return new HelpCommand(name);
  }

  override addHelpText(position: AddHelpTextPosition, text: HelpText): this {
    return super.addHelpText(position, (context) => fitHelp(typeof text === 'string' ? text : text(context)));
  }
}

/**
 * Wraps the paragraphs of a text that have a line longer than `TEXT_WIDTH`. Indented lines are commands or lists, and stay
 * as they are.
 */
export function fitHelp(text: string): string {
  const paragraphs: string[][] = [];
  for (const line of text.split('\n')) {
    const last = paragraphs.at(-1);
    if (last !== undefined && isProse(line) && !LABEL.test(line) && isProse(last[0] ?? '')) last.push(line);
    else paragraphs.push([line]);
  }
  return paragraphs.flatMap(fitParagraph).join('\n');
}

function fitParagraph(lines: readonly string[]): readonly string[] {
  const isLong = lines.some((line) => line.length > TEXT_WIDTH);
  return isLong && isProse(lines[0] ?? '') ? wrapWords(lines.join(' '), TEXT_WIDTH) : lines;
}

function isProse(line: string): boolean {
  return line !== '' && !line.startsWith(' ');
}
