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

/** Sentences that send the reader back to what the error has said already, or only ask to repeat. */
const NO_ADVICE = [
  /^The (message|error|cause|log|text) \w+ (what|which|why|how)\b/,
  /^(Read|See|Look at|Find|Follow) the (message|log|error|cause|last output)\b[^`]*$/,
  /^(Correct|Fix|Follow|Check) the (cause|endpoint|value|error)\b[^`]*$/,
  /^Report (the|this) (error|bug|message)\b[^`]*$/,
  /^(Repeat|Try|Wait)\b[^`,:]*$/,
];

/** Whether a fix has a sentence that says what to do. */
function hasAdvice(fix: string): boolean {
  const sentences = fix.split(/(?<=[.;]) /).filter((each) => !NO_ADVICE.some((empty) => empty.test(each)));
  return sentences.some((each) => each.includes('`') || each.split(' ').length > 4);
}

test('every fix says what to do, and not only where the error is described', () => {
  const fixes = Object.entries(explained);
  expect(fixes.filter(([, { fix }]) => !hasAdvice(fix)).map(([code, { fix }]) => `${code}: ${fix}`)).toEqual(
    [],
  );
});

test.each([
  'The message says which program failed and why.',
  'Repeat the call.',
  'Correct the endpoint.',
  'Read the log of the peer at the time of the call.',
  'Report the error message, which contains the reason.',
  'Correct the cause that the program names in its last output.',
  'Wait and try again.',
])('"%s" is no advice', (fix) => {
  expect(hasAdvice(fix)).toBe(false);
});
