import { z } from 'zod';
import type { Finding } from './finding.ts';

const LOCK = 'package-lock.json';

/** `npm audit --json` (npm 7 and later). `via` has the vulnerabilities of the package, and the names of packages that it gets others from. */
const reportShape = z.object({
  auditReportVersion: z.literal(2),
  vulnerabilities: z.record(
    z.string(),
    z.object({
      via: z.array(z.union([z.string(), z.object({ name: z.string(), url: z.string() })])),
    }),
  ),
});
const failureShape = z.object({ message: z.string() });

/** Reads the report of `npm audit --json`. @throws Error if it is no report, as when the registry does not answer */
export function parseNpmAudit(text: string): readonly Finding[] {
  const value: unknown = JSON.parse(text);
  const failure = failureShape.safeParse(value);
  if (failure.success) throw new Error(`npm audit: ${failure.data.message}`);
  const { vulnerabilities } = reportShape.parse(value);
  const all = Object.values(vulnerabilities)
    .flatMap(({ via }) => via)
    .flatMap((each) => (typeof each === 'string' ? [] : [each]))
    .map(({ name, url }) => ({ id: url.split('/').at(-1) ?? url, what: name, where: LOCK }));
  return [...new Map(all.map((each) => [`${each.id} ${each.what}`, each])).values()];
}
