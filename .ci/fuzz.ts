/**
 * Fuzzes the parsers of input from untrusted peers: `npm run fuzz -- [--seconds N] [--seed N] [--list] [NAME…]`.
 * NAME selects targets by a part of their name; `--seconds` is for each of them (10 unless said). The seed is printed, and
 * the same one gives the same inputs again. Fails on the first defect of a target and goes on with the next one.
 */
import { parseArgs } from 'node:util';
import { fuzz, type NamedFuzzTarget } from '../internal/testing/fuzz.ts';
import { loadFuzzTargets } from './fuzz-targets.ts';

const DEFAULT_SECONDS = 10;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string' }, seed: { type: 'string' }, list: { type: 'boolean' } },
});
const seconds = numberOf('seconds', values.seconds) ?? DEFAULT_SECONDS;
const seed = numberOf('seed', values.seed);
const all = await loadFuzzTargets();
const chosen = all.filter(
  ({ name }) => positionals.length === 0 || positionals.some((each) => name.includes(each)),
);
if (chosen.length === 0) {
  process.stderr.write(`no target has ${positionals.join(' or ')} in its name; --list shows all\n`);
  process.exitCode = 2;
}
for (const target of chosen) {
  if (values.list === true) process.stdout.write(`${target.name}\n`);
  else run(target);
}

function run(target: NamedFuzzTarget): void {
  try {
    const { seed: used, cases, refused } = fuzz(target, { seconds, ...(seed === undefined ? {} : { seed }) });
    const line = `${target.name.padEnd(28)} seed ${used}, ${cases} cases, ${refused} refused`;
    process.stdout.write(`ok    ${line}\n`);
  } catch (error) {
    process.stdout.write(`FAIL  ${target.name.padEnd(28)} ${String(error)}\n`);
    if (error instanceof Error && error.cause instanceof Error)
      process.stdout.write(`      ${error.cause.stack ?? error.cause.message}\n`);
    process.exitCode = 1;
  }
}

function numberOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined || /^\d+$/.test(text)) return text === undefined ? undefined : Number(text);
  process.stderr.write(`--${name} takes a number, not ${text}\n`);
  process.exit(2);
}
