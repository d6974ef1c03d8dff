import { PHASES, type PhaseName } from '../../../initproto/phases.ts';
import type { StoredEvent } from './watched-machine.ts';

/** Ways to interrupt an init. Each has a story that interrupts the init once in every phase of `PHASES`. */
export const KILL_KINDS = ['killed-cli', 'killed-agent', 'power-cuts'] as const;
export type KillKind = (typeof KILL_KINDS)[number];

/**
 * How precisely a kill can hit a phase. `inside`: the phase has started and not ended; the story asserts this
 * from the machine's event log. `beginning`: the phase takes only milliseconds, so the kill happens as soon
 * as its start is on disk, during the phase or just after it. Kills between two writes of such a phase are
 * tested with a fault-injecting file port (bootstrapper/initserver/init-job.test.ts).
 */
type Aim = 'inside' | 'beginning';

/** The type requires an entry for each phase of `PHASES`; kill-matrix.test.ts checks that stories cover them. */
export const KILL_MATRIX: Readonly<Record<PhaseName, Readonly<Record<KillKind, Aim>>>> = {
  preflight: { 'killed-cli': 'beginning', 'killed-agent': 'beginning', 'power-cuts': 'beginning' },
  lock: { 'killed-cli': 'beginning', 'killed-agent': 'beginning', 'power-cuts': 'beginning' },
  components: { 'killed-cli': 'inside', 'killed-agent': 'inside', 'power-cuts': 'inside' },
  images: { 'killed-cli': 'inside', 'killed-agent': 'inside', 'power-cuts': 'inside' },
  consensus: { 'killed-cli': 'inside', 'killed-agent': 'inside', 'power-cuts': 'inside' },
  membership: { 'killed-cli': 'inside', 'killed-agent': 'inside', 'power-cuts': 'inside' },
  curator: { 'killed-cli': 'inside', 'killed-agent': 'inside', 'power-cuts': 'inside' },
  pki: { 'killed-cli': 'inside', 'killed-agent': 'inside', 'power-cuts': 'inside' },
  'control-plane': { 'killed-cli': 'inside', 'killed-agent': 'inside', 'power-cuts': 'inside' },
  settings: { 'killed-cli': 'inside', 'killed-agent': 'inside', 'power-cuts': 'inside' },
  node: { 'killed-cli': 'beginning', 'killed-agent': 'beginning', 'power-cuts': 'beginning' },
};

/** Whether a joining control plane goes through this phase; the other phases belong to an init only. */
const JOINING: Readonly<Record<PhaseName, boolean>> = {
  preflight: false,
  lock: false,
  components: true,
  images: true,
  consensus: true,
  membership: false,
  curator: true,
  pki: true,
  'control-plane': true,
  settings: true,
  node: true,
};
/** The phases of a join; joining-killed.story.ts kills the agent in each of them. */
export const JOINING_PHASES = PHASES.map(({ name }) => name).filter((name) => JOINING[name]);

/** The phases that a story has hit so far, and whether each kill happened inside the phase. */
export class KilledPhases {
  readonly #strike: KillKind;
  readonly #hits = new Map<PhaseName, boolean>();

  constructor(strike: KillKind) {
    this.#strike = strike;
  }

  has(phase: PhaseName): boolean {
    return this.#hits.has(phase);
  }

  /** Records the kill if it hit the phase as precisely as the matrix demands. */
  record(phase: PhaseName, inside: boolean): void {
    if (inside || KILL_MATRIX[phase][this.#strike] === 'beginning') this.#hits.set(phase, inside);
  }

  missing(): readonly PhaseName[] {
    return PHASES.map(({ name }) => name).filter((name) => !this.#hits.has(name));
  }

  table(): string {
    const word = { true: 'inside', false: 'just behind its beginning', undefined: 'not killed' };
    return PHASES.map(
      ({ name }) => `${this.#strike}  ${name.padEnd(14)} ${word[`${this.#hits.get(name)}`]}`,
    ).join('\n');
  }
}

/** Whether the last run of this phase has started and not ended, according to the machine's event log. */
export function isInside(events: readonly StoredEvent[], phase: PhaseName): boolean {
  const last = events.findLast(({ event }) => event.phase === phase && event.kind !== 'progress');
  return last?.event.kind === 'started';
}
