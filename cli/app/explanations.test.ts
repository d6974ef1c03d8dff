import { expect, test } from '@jest/globals';
import type { Command } from 'commander';
import { EXIT_CODES } from '../../internal/errors/index.ts';
import explained from './explained-errors.json' with { type: 'json' };
import { createInertProgram } from './program.ts';
import { COMMANDS } from './registry.ts';

const program = await createInertProgram(COMMANDS);

/** The first word of "cluster node remove NODE --lost" that does not exist; undefined if all words exist. */
function missingIn(text: string): string | undefined {
  let at: Command = program;
  for (const word of text.split(/\s+/).slice(1)) {
    if (word === '--') return undefined; // Words after `--` are the command line of another program, which runs on a local machine.
    if (word.startsWith('--')) {
      const flag = word.replace(/[^a-z-].*$/, '');
      const known = [...at.options, ...program.options].map(({ long }) => long);
      if (flag !== '--help' && !known.includes(flag)) return flag;
      continue;
    }
    const next = at.commands.find((each) => each.name() === word);
    if (next !== undefined) at = next;
    else if (at.commands.length > 0 && at.registeredArguments.length === 0) return word;
  }
  return undefined;
}

function commandsIn(text: string): readonly string[] {
  return [...text.matchAll(/`(cluster [a-z][^`]*)`/g)].map(([, command = '']) => command);
}

test('every command and flag that the explanation of an error or exit code mentions exists', () => {
  const texts = [
    ...Object.entries(explained).flatMap(([code, { meaning, fix }]) => [
      { of: code, text: meaning },
      { of: code, text: fix },
    ]),
    ...Object.entries(EXIT_CODES).map(([of, { meaning }]) => ({ of, text: meaning })),
  ];
  const wrong = texts.flatMap(({ of, text }) =>
    commandsIn(text).flatMap((command) => {
      const missing = missingIn(command);
      return missing === undefined ? [] : [`${of}: ${command}: there is no ${missing}`];
    }),
  );
  expect(texts.flatMap(({ text }) => commandsIn(text)).length).toBeGreaterThan(50);
  expect(wrong).toEqual([]);
});
