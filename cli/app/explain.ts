import { EXIT_CODES, type ErrorSpec, type ExitName } from '../../internal/errors/index.ts';
import { formatTable, TEXT_WIDTH, wrapWords, type Host } from '../host/index.ts';
import aliases from './code-aliases.json' with { type: 'json' };
import { AppError } from './errors.ts';
import explained from './explained-errors.json' with { type: 'json' };

type Explained = ErrorSpec & { readonly source: string };

/** Every error code of every program, collected from their catalogs. */
const EXPLAINED_ERRORS = explained as Readonly<Record<string, Explained>>;

/** Codes of earlier releases, which older agents and scripts may still use, with their present names. */
const ALIASES = aliases as Readonly<Record<string, string>>;

/** The present name of a code of an earlier release; other codes are returned unchanged. */
export function currentCode(code: string): string {
  return Object.hasOwn(ALIASES, code) ? (ALIASES[code] ?? code) : code;
}

function findSpec(code: string): Explained | undefined {
  const current = currentCode(code);
  return Object.hasOwn(EXPLAINED_ERRORS, current) ? EXPLAINED_ERRORS[current] : undefined;
}

const FAULTS = {
  operator: 'the command line or configuration',
  peer: 'the remote side',
  system: 'this machine',
} as const;

/** Shows the table of exit codes. */
export function explainExitCodes(host: Host): void {
  const rows = Object.entries(EXIT_CODES).map(([name, { number, meaning }]) => [
    String(number),
    name,
    meaning,
  ]);
  host.result(EXIT_CODES, () => formatTable(['EXIT', 'NAME', 'MEANING'], rows, TEXT_WIDTH));
}

/** Shows one code in full, or a table of all codes. @throws AppError `app-unknown-error-code` */
export function explainErrors(host: Host, given: string | undefined): void {
  if (given === undefined) {
    const entries = Object.entries(EXPLAINED_ERRORS).map(([each, spec]) =>
      [`${each} (exit code ${exitNumber(spec)})`, ...indented('  ', spec.meaning)].join('\n'),
    );
    host.result(EXPLAINED_ERRORS, () => entries.join('\n'));
    return;
  }
  const spec = findSpec(given);
  if (spec === undefined) throw unknownCode(given);
  const code = currentCode(given);
  host.result({ code, ...spec }, () =>
    [
      `${code} – exit code ${exitNumber(spec)} (${spec.exit})`,
      '',
      ...indented('  ', spec.meaning),
      '',
      ...indented('  fix:       ', spec.fix),
      `  retryable: ${spec.retryable ? 'yes' : 'no'}`,
      `  cause in:  ${FAULTS[spec.fault]}`,
    ].join('\n'),
  );
}

/** The exit name of a code of any program; undefined for an unknown code. */
export function exitOfCode(code: string): ExitName | undefined {
  return findSpec(code)?.exit;
}

/** The meaning of a code of any program; undefined for an unknown code. */
export function meaningOfCode(code: string): string | undefined {
  return findSpec(code)?.meaning;
}

/** The fix of a code of any program; undefined for an unknown code. */
export function fixOfCode(code: string): string | undefined {
  return findSpec(code)?.fix;
}

/** A text in lines of at most `TEXT_WIDTH`, the first after `lead`, the others below its end. */
function indented(lead: string, text: string): readonly string[] {
  return wrapWords(text, TEXT_WIDTH - lead.length).map(
    (line, at) => `${at === 0 ? lead : ' '.repeat(lead.length)}${line}`,
  );
}

function exitNumber(spec: Explained): number {
  return EXIT_CODES[spec.exit satisfies ExitName].number;
}

function unknownCode(code: string): AppError {
  const near = Object.keys(EXPLAINED_ERRORS).filter((each) => each.split('-')[0] === code.split('-')[0]);
  const fix = near.length === 0 ? {} : { fix: `Similar codes: ${near.join(', ')}.` };
  return new AppError('app-unknown-error-code', `unknown error code ${JSON.stringify(code)}`, fix);
}
