import type { Harness } from '../../machines/harness.ts';
import type { FaultKind, InjectedFault, Random } from './faults.ts';
import { InitRun, type OutputLine } from '../init/init-run.ts';
import type { WatchedMachine } from '../init/watched-machine.ts';

/** The report of the CLI (its JSON output) about an injected fault. */
export interface Diagnosis {
  readonly kind: FaultKind;
  readonly what: string;
  readonly named: string;
  readonly exit: number;
  readonly message: string;
  readonly fix: string;
  /** Whether error code, exit code and message are those of the injected fault. */
  readonly right: boolean;
}

/**
 * Injects a fault, lets the CLI run into it, and removes the fault. The caller then runs the same command
 * again.
 */
export async function diagnose(
  bench: Harness,
  machine: WatchedMachine,
  kind: FaultKind,
  random: Random,
): Promise<Diagnosis> {
  let over = false;
  const injected = await kind.inject({ bench, machine, random, over: () => over });
  try {
    const cli = await runInto(bench, machine, injected);
    const exit = await cli.ended;
    over = true;
    return judged(kind, injected, { exit, outcome: cli.outcome() });
  } finally {
    await injected.undo();
  }
}

async function runInto(bench: Harness, machine: WatchedMachine, injected: InjectedFault): Promise<InitRun> {
  const { env = {}, args = [], again } = injected;
  // `args` come last, because the last of two equal flags counts.
  const first = new InitRun(bench, [...machine.init(), ...args], env);
  if (again === undefined) return first;
  const more = await Promise.race([again, first.ended.then(() => undefined)]);
  if (more === undefined) return first;
  await first.kill();
  return new InitRun(bench, [...machine.init(), ...more], env);
}

function judged(
  kind: FaultKind,
  { what, expectedMessage }: InjectedFault,
  { exit, outcome }: { readonly exit: number; readonly outcome: OutputLine | undefined },
): Diagnosis {
  const { code: named = outcome?.type ?? 'nothing', message = '', fix = '' } = outcome ?? {};
  // The expected error code and exit code, a message that names the fault, a fix, and no other findings.
  const right =
    named === kind.code &&
    exit === kind.exit &&
    expectedMessage.test(message) &&
    fix !== '' &&
    !/\(and \d+ more/.test(message);
  return { kind, what, named, exit, message, fix, right };
}

/** A random number generator; the same seed gives the same numbers (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
