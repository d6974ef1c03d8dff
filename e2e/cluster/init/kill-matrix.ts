import { PHASES, type PhaseName } from '../../../initproto/phases.ts';
import type { StoredEvent } from './watched-machine.ts';

/** What hits an init. Each has a story that strikes once in every phase of the registry. */
export const KILL_KINDS = ['killed-cli', 'killed-agent', 'power-cuts'] as const;
export type KillKind = (typeof KILL_KINDS)[number];

/**
 * How sure a strike is to hit inside the phase. `inside`: the phase has begun and not ended, which the story asserts from
 * the machine's own record. `beginning`: it is over within milliseconds, so the strike falls as soon as its begin is on
 * disk, inside or just behind it; what lies between two writes of such a phase is the subject of the tests with a
 * fault-injecting file port (bootstrapper/initserver/init-job.test.ts).
 */
type Aim = 'inside' | 'beginning';

/** A phase of the registry that is not here does not compile; kill-matrix.test.ts says the rest. */
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

/** Which of them a control plane that joins goes through; the others are an init's own. */
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
/** joining-killed.story.ts kills the agent in each of them. */
export const JOINING_PHASES = PHASES.map(({ name }) => name).filter((name) => JOINING[name]);

/** Which phases a story has killed, and whether each strike fell inside. */
export class KilledPhases {
  readonly #strike: KillKind;
  readonly #hits = new Map<PhaseName, boolean>();

  constructor(strike: KillKind) {
    this.#strike = strike;
  }

  has(phase: PhaseName): boolean {
    return this.#hits.has(phase);
  }

  /** Takes the strike into account when it hit what the matrix aims at. */
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

/** Whether the last run of a phase, as the machine has kept it, has begun and not ended. */
export function isInside(events: readonly StoredEvent[], phase: PhaseName): boolean {
  const last = events.findLast(({ event }) => event.phase === phase && event.kind !== 'progress');
  return last?.event.kind === 'started';
}
