import { z } from 'zod';
import type { Finding } from './finding.ts';

/** A message of `govulncheck -format json` (golang.org/x/vuln/internal/govulncheck, Message). */
const messageShape = z.object({
  config: z.object({ scan_level: z.literal('symbol') }).optional(),
  finding: z
    .object({
      osv: z.string(),
      /** The first frame has what is vulnerable: a module, a package of it, or a function. */
      trace: z
        .array(
          z.object({
            module: z.string(),
            version: z.string().optional(),
            function: z.string().optional(),
          }),
        )
        .min(1),
    })
    .optional(),
});

/**
 * Reads what `govulncheck -mode binary -format json` printed for one program. As in the text that govulncheck prints, only vulnerable
 * functions count that are in the program; of a program without symbols, all functions of the packages that it was built from.
 * @throws Error if it ended before its first message
 */
export function parseGovulncheck(text: string, program: string): readonly Finding[] {
  const messages = valuesOf(text).map((value) => messageShape.parse(value));
  if (!messages.some(({ config }) => config !== undefined))
    throw new Error(`govulncheck printed no configuration for ${program}: ${text.slice(0, 200)}`);
  const found = messages.flatMap(({ finding }): readonly Finding[] => {
    const [at] = finding?.trace ?? [];
    if (finding === undefined || at?.function === undefined) return [];
    return [{ id: finding.osv, what: `${at.module}@${at.version ?? 'unknown'}`, where: program }];
  });
  return [...new Map(found.map((each) => [`${each.id} ${each.what}`, each])).values()];
}

/** The values of a stream of indented JSON objects: each begins and ends with a brace in the first column. */
function valuesOf(text: string): readonly unknown[] {
  return text
    .split(/^(?=\{)/m)
    .filter((each) => each.trim() !== '')
    .map((each) => JSON.parse(each) as unknown);
}
