import type { Harness } from '../../machines/harness.ts';
import { diagnose, seededRandom, type Diagnosis } from './diagnose.ts';
import { FAULTS, type FaultKind } from './faults.ts';
import { InitRun } from '../init/init-run.ts';
import { WatchedMachine } from '../init/watched-machine.ts';

export interface RandomFaultReport {
  readonly seed: number;
  readonly diagnoses: readonly Diagnosis[];
  readonly right: number;
}

/**
 * Injects random faults and compares the error of the CLI with the injected fault. The same seed gives the
 * same faults.
 */
export async function injectRandomFaults(
  bench: Harness,
  options: { readonly seed: number; readonly count: number; readonly onEach: (line: string) => void },
): Promise<RandomFaultReport> {
  const random = seededRandom(options.seed);
  const diagnoses: Diagnosis[] = [];
  let ground: { machine: WatchedMachine; stage: FaultKind['stage']; flags: string } | undefined;
  for (let at = 0; at < options.count; at++) {
    const kind = FAULTS[Math.floor(random() * FAULTS.length)];
    if (kind === undefined) throw new Error('there are no faults');
    const flags = (kind.flags ?? []).join(' ');
    const fits =
      ground !== undefined &&
      (kind.stage === 'made'
        ? ground.stage === 'made'
        : ground.stage === 'fresh' && (flags === '' || ground.flags === flags));
    if (!fits || ground === undefined) {
      // A fresh machine can become the complete cluster that this fault needs, so it is not replaced.
      if (kind.stage !== 'made' || ground?.stage !== 'fresh') {
        if (ground !== undefined) await bench.must('mini', 'down', '--name', ground.machine.name);
        ground = {
          machine: await WatchedMachine.create(bench, `blind${at}`, ...(kind.flags ?? [])),
          stage: 'fresh',
          flags,
        };
      }
      if (kind.stage === 'made') {
        await bench.must(...ground.machine.init());
        ground = { ...ground, stage: 'made' };
      }
    }
    const diagnosis = await diagnose(bench, ground.machine, kind, random);
    diagnoses.push(diagnosis);
    options.onEach(renderDiagnosis(at + 1, diagnosis));
    if (kind.stage === 'begun') {
      // Completes the interrupted init. Later faults that need a complete cluster use this one.
      const again = new InitRun(bench, ground.machine.init());
      if ((await again.ended) !== 0) throw new Error(`after ${diagnosis.what}: ${again.said()}`);
      ground = { ...ground, stage: 'made' };
    }
  }
  return { seed: options.seed, diagnoses, right: diagnoses.filter(({ right }) => right).length };
}

export function renderDiagnosis(number: number, { kind, what, named, exit, right }: Diagnosis): string {
  const verdict = right ? 'right' : `WRONG, should be ${kind.code} (${kind.exit})`;
  return `${String(number).padStart(3)}  ${what.padEnd(66)} ${`${named} (${exit})`.padEnd(36)} ${verdict}`;
}
