import { z } from 'zod';
import { DAY_MS } from '../../internal/clock/index.ts';

/** A known vulnerability of something that is shipped or that builds it. */
export interface Finding {
  /** The ID in the database: `GHSA-…` (npm) or `GO-…` (Go). */
  readonly id: string;
  /** The package or module: `tar-stream`, `golang.org/x/net@v0.55.0`. */
  readonly what: string;
  /** What contains it: `package-lock.json`, or a program of the bundle. */
  readonly where: string;
}

const exceptionShape = z.strictObject({
  id: z.string().regex(/^(GHSA|GO)-[\w-]+$/),
  /** Why nobody can use it here. */
  reason: z.string().min(20),
  /** The last day on which the exception counts, so that somebody looks again. */
  until: z.iso.date(),
});
const exceptionsShape = z.strictObject({ exceptions: z.array(exceptionShape) });

/** A vulnerability that is accepted, and until when. */
export type Exception = z.infer<typeof exceptionShape>;

/** Parses docs/vulnerability-exceptions.json. @throws ZodError */
export function parseExceptions(text: string): readonly Exception[] {
  return exceptionsShape.parse(JSON.parse(text)).exceptions;
}

/**
 * What is wrong: each finding without an exception, or whose exception has ended, and each exception that no finding needs.
 */
export function problemsOf(
  findings: readonly Finding[],
  exceptions: readonly Exception[],
  nowMs: number,
): readonly string[] {
  const isValid = ({ until }: Exception): boolean => nowMs < Date.parse(until) + DAY_MS;
  const found = new Set(findings.map(({ id }) => id));
  return [
    ...findings.flatMap(({ id, what, where }) => {
      const exception = exceptions.find((each) => each.id === id);
      if (exception !== undefined && isValid(exception)) return [];
      const ended = exception === undefined ? '' : `; its exception ended on ${exception.until}`;
      return [`${id}: ${what} in ${where}${ended}`];
    }),
    ...exceptions
      .filter(({ id }) => !found.has(id))
      .map(({ id }) => `${id}: nothing has this vulnerability any more; delete its exception`),
  ];
}
