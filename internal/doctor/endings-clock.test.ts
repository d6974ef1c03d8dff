import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ClusterFacts } from './cluster-facts.ts';
import { diagnose } from './diagnose.ts';
import { endingsUntil } from './endings.ts';
import { fakeFacts, NOW_MS } from './fake-facts.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const HORIZON_MS = NOW_MS + 4_000 * DAY_MS;
/** Their figures are measured again at every run, so time alone does not make them worse. */
const MEASURED_AGAIN: readonly string[] = ['doctor-backup', 'doctor-etcd-content'];

interface Ends {
  readonly certificateMs: number;
  readonly kubeconfigMs: number;
  readonly policyMs: number;
  readonly crlMs: number;
}

/** Facts with the clock at `takenMs`, and everything else as it was. */
function factsAt(takenMs: number, { certificateMs, kubeconfigMs, policyMs, crlMs }: Ends): ClusterFacts {
  return fakeFacts({
    takenMs,
    credentials: { certificateMs, kubeconfigMs },
    documents: { ok: true, value: [{ kind: 'policy', endsMs: policyMs }] },
    collateral: { ok: true, value: [{ what: 'CRL of AMD', expiresMs: crlMs }] },
  });
}

/** What has ended at this time, as the checks say it. */
function endedAt(takenMs: number, ends: Ends): ReadonlySet<string> {
  return new Set(
    diagnose(factsAt(takenMs, ends))
      .filter(({ code, figure }) => !MEASURED_AGAIN.includes(code) && /^(?:ended|expired)/.test(figure))
      .map(({ code, subject }) => `${code} ${subject}`),
  );
}

/** What is an error at this time. */
function errorsAt(takenMs: number, ends: Ends): readonly string[] {
  return diagnose(factsAt(takenMs, ends))
    .filter(({ code, grade }) => !MEASURED_AGAIN.includes(code) && grade === 'error')
    .map(({ code, subject }) => `${code} ${subject}`);
}

const endMs = fc.integer({ min: 1, max: 3_900 * 24 }).map((hours) => NOW_MS + (hours * DAY_MS) / 24);
const ends = fc.record({ certificateMs: endMs, kubeconfigMs: endMs, policyMs: endMs, crlMs: endMs });

test('when the clock is advanced to each ending, a check says so, and between two endings none becomes an error', () => {
  fc.assert(
    fc.property(ends, (given) => {
      // A forecast of growth needs disks that grow.
      const found = endingsUntil(factsAt(NOW_MS, given), HORIZON_MS).endings.filter(
        ({ figure }) => figure === undefined,
      );
      const times = [...new Set(found.map((ending) => ending.endsMs))];
      for (const endsMs of times) {
        const before = endedAt(endsMs - 1, given);
        const more = [...endedAt(endsMs, given)].filter((each) => !before.has(each));
        expect(more.length).toBeGreaterThan(0);
      }
      for (const [at, fromMs] of [NOW_MS, ...times].entries()) {
        const untilMs = (times[at] ?? HORIZON_MS) - 1;
        const known = errorsAt(fromMs, given);
        expect(errorsAt(untilMs, given).filter((each) => !known.includes(each))).toEqual([]);
      }
    }),
    { numRuns: 20, seed: 23 },
  );
}, 120_000);
