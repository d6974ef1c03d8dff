import { describe, expect, test } from '@jest/globals';
import type { Command } from 'commander';
import { RecordingHost } from '../host/fake-host.ts';
import { explainErrors, explainExitCodes } from './explain.ts';
import explained from './explained-errors.json' with { type: 'json' };
import { commandPath } from './find-command.ts';
import { fitHelp } from './help-text.ts';
import { COMMANDS } from './index.ts';
import { createProgram } from './program.ts';

const WIDTH = 80;
/** A URL that people copy may be longer, on a line of its own. */
const COPIED = /^ *https?:\/\/\S/;

const tooLong = (text: string): readonly string[] =>
  text.split('\n').filter((line) => line.length > WIDTH && !COPIED.test(line));

/** The help of every command, by its words. */
async function allHelp(): Promise<ReadonlyMap<string, string>> {
  const written: string[] = [];
  const program = await createProgram({
    version: '',
    entries: COMMANDS,
    loads: () => true,
    action: () => async () => undefined,
    write: (text) => void written.push(text),
    writeGroupHelp: () => undefined,
  });
  const texts = new Map<string, string>();
  const visit = (command: Command): void => {
    written.length = 0;
    command.outputHelp();
    texts.set(commandPath(command), written.join(''));
    for (const each of command.commands) visit(each);
  };
  visit(program);
  return texts;
}

const shownBy = (explain: (host: RecordingHost) => void): string => {
  const host = new RecordingHost();
  explain(host);
  return host.records.flatMap((record) => (record.kind === 'result' ? [record.text] : [])).join('\n');
};

describe('help', () => {
  test('of every command fits a terminal of 80 columns', async () => {
    const texts = await allHelp();
    expect(texts.size).toBeGreaterThan(100);
    expect(
      [...texts].flatMap(([command, text]) => tooLong(text).map((line) => `${command}: ${line}`)),
    ).toEqual([]);
  });

  test('about exit codes and errors fits a terminal of 80 columns', () => {
    expect(tooLong(shownBy(explainExitCodes))).toEqual([]);
    expect(tooLong(shownBy((host) => explainErrors(host, undefined)))).toEqual([]);
  });

  test.each(Object.keys(explained))('about the error %s fits a terminal of 80 columns', (code) => {
    expect(tooLong(shownBy((host) => explainErrors(host, code)))).toEqual([]);
  });
});

describe('fitHelp()', () => {
  const long = `${'word '.repeat(20)}end`;
  test.each([
    { name: 'text that fits', given: '\nOne line.\nAnother line.', want: '\nOne line.\nAnother line.' },
    {
      name: 'a long paragraph, together with its short lines',
      given: `${long}\nthen\nmore\n\nNext.`,
      want: `${'word '.repeat(15)}word\n${'word '.repeat(4)}end then more\n\nNext.`,
    },
    {
      name: 'a label in capitals, which starts a paragraph',
      given: `One\nTWO: ${long}`,
      want: /^One\nTWO: word/,
    },
    {
      name: 'an indented command, which people copy',
      given: `Examples:\n  cluster ${long}`,
      want: `Examples:\n  cluster ${long}`,
    },
  ])('wraps $name', ({ given, want }) => {
    if (typeof want === 'string') expect(fitHelp(given)).toBe(want);
    else expect(fitHelp(given)).toMatch(want);
  });
});
