import { withTimeout } from '../../internal/cleanup/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readPart } from '../cluster/index.ts';
import { redactJson, redactText } from './redact/redact.ts';
import type { SupportFile, SupportManifest } from './support-file.ts';

/** No source takes longer: a disk or a program may hang. */
const SOURCE_MS = 60_000;
/** Longer errors would make the manifest unreadable. */
const MAX_ERROR_CHARACTERS = 2_000;

/** Where to list what could not be collected, and how to show what is being collected. */
export interface Collecting {
  readonly context: CommandContext;
  /** Filled while files are collected. */
  readonly missing: SupportManifest['missing'];
  /** Called before each file. */
  readonly onFile: (path: string) => void;
  /** Time for each source; only tests set it. */
  readonly sourceMs?: number;
}

/** A file of a support bundle; if it cannot be collected, its error is listed and nothing is yielded. `collect` removes secrets. */
export async function* attemptFile(
  collecting: Collecting,
  path: string,
  collect: (signal: AbortSignal) => Promise<string>,
): AsyncGenerator<SupportFile> {
  const { context, onFile, sourceMs: ms = SOURCE_MS } = collecting;
  onFile(path);
  const { clock } = context.ports;
  const limit = { what: `collecting ${path}`, ms, clock, signal: context.signal };
  const collected = await readPart(context, () => withTimeout(limit, collect));
  if (collected.ok) yield textFile(path, collected.value);
  else addMissing(collecting, path, collected.error);
}

/** Lists what could not be collected. Errors contain output of programs, so secrets are removed from them too. */
export function addMissing({ missing }: Pick<Collecting, 'missing'>, path: string, error: string): void {
  missing.push({ path, error: printable(redactText(error).slice(0, MAX_ERROR_CHARACTERS)) });
}

/** A value as JSON without secrets. */
export function asJson(value: unknown): string {
  return `${JSON.stringify(redactJson(value), null, 1)}\n`;
}

/** A file of text that has no secrets any more. */
export function textFile(path: string, text: string): SupportFile {
  return { path, content: new TextEncoder().encode(text) };
}
