import { AttestationError, type Verdict } from '../../attestation/index.ts';

/** The names of the checks of accepted evidence. @throws Error if a verdict has two checks of one name */
export async function passedChecks(verdicts: readonly Promise<Verdict>[]): Promise<ReadonlySet<string>> {
  const lists = (await Promise.all(verdicts)).map(({ checks }) => checks.map(({ name }) => name));
  const twice = lists.flatMap((names) => names.filter((name, at) => names.indexOf(name) !== at));
  if (twice.length > 0) throw new Error(`checks with the same name: ${twice.join(', ')}`);
  return new Set(lists.flat());
}

/** The name of the failed check of each piece of refused evidence. */
export async function failedChecks(verdicts: readonly Promise<Verdict>[]): Promise<readonly string[]> {
  const settled = await Promise.allSettled(verdicts);
  return settled.map((each) => {
    if (each.status === 'fulfilled') throw new Error('accepted');
    if (!(each.reason instanceof AttestationError)) throw each.reason;
    return each.reason.checks.at(-1)?.name ?? '';
  });
}
