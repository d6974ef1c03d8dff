import { EXIT_CODES, type ErrorSpec, type ExitName } from '../../internal/errors/index.ts';
import { formatTable, type Host } from '../host/index.ts';
import aliases from './code-aliases.json' with { type: 'json' };
import { AppError } from './errors.ts';
import explained from './explained-errors.json' with { type: 'json' };

type Explained = ErrorSpec & { readonly source: string };

/** Every code of every program, collected from their catalogues. */
export const EXPLAINED_ERRORS = explained as Readonly<Record<string, Explained>>;

/** Codes of earlier releases, and what they are called today: agents and scripts may still say them. */
const ALIASES = aliases as Readonly<Record<string, string>>;

/** Today's name of a code, which may come from an earlier release; unknown codes are returned as they are. */
export function currentCode(code: string): string {
  return Object.hasOwn(ALIASES, code) ? (ALIASES[code] ?? code) : code;
}

function findSpec(code: string): Explained | undefined {
  const current = currentCode(code);
  return Object.hasOwn(EXPLAINED_ERRORS, current) ? EXPLAINED_ERRORS[current] : undefined;
}

/** The table of exit codes. */
export function explainExitCodes(host: Host): void {
  const rows = Object.entries(EXIT_CODES).map(([name, { number, meaning }]) => [
    String(number),
    name,
    meaning,
  ]);
  host.result(EXIT_CODES, () => formatTable(['EXIT', 'NAME', 'MEANING'], rows));
}

/** One code in full, or all of them as a table. */
export function explainErrors(host: Host, given: string | undefined): void {
  if (given === undefined) {
    const rows = Object.entries(EXPLAINED_ERRORS).map(([each, spec]) => [
      each,
      String(exitNumber(spec)),
      spec.meaning,
    ]);
    host.result(EXPLAINED_ERRORS, () => formatTable(['CODE', 'EXIT', 'MEANING'], rows));
    return;
  }
  const spec = findSpec(given);
  if (spec === undefined) throw unknownCode(given);
  const code = currentCode(given);
  host.result({ code, ...spec }, () =>
    [
      `${code} – exit code ${exitNumber(spec)} (${spec.exit})`,
      '',
      `  ${spec.meaning}`,
      '',
      `  fix:   ${spec.fix}`,
      `  again: ${spec.retryable ? 'the same command is safe to repeat' : 'not before the cause is gone'}`,
      `  fault: ${{ operator: 'the command or its files', peer: 'the other end', system: 'this machine' }[spec.fault]}`,
      `  where: ${spec.source}`,
    ].join('\n'),
  );
}

/** The exit name of a code of any of the programs. */
export function exitOfCode(code: string): ExitName | undefined {
  return findSpec(code)?.exit;
}

/** What to do about a code of any of the programs. */
export function fixOfCode(code: string): string | undefined {
  return findSpec(code)?.fix;
}

function exitNumber(spec: Explained): number {
  return EXIT_CODES[spec.exit satisfies ExitName].number;
}

function unknownCode(code: string): AppError {
  const near = Object.keys(EXPLAINED_ERRORS).filter((each) => each.split('-')[0] === code.split('-')[0]);
  const fix = near.length === 0 ? {} : { fix: `Codes that begin alike: ${near.join(', ')}.` };
  return new AppError('app-unknown-error-code', `unknown error code ${JSON.stringify(code)}`, fix);
}
