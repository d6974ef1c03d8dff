import { MINUTE_MS, type Clock } from '../../internal/clock/index.ts';
import {
  addMeasurement,
  growthOf,
  MEASURE_EVERY_MS,
  shiftHistory,
  type Growth,
  type GrowthHistory,
  type GrowthSubject,
  type Measured,
  type SavedGrowth,
} from '../../internal/growth/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import type { Runnable } from '../../internal/supervisor/index.ts';
import type { ChecksummedFile } from '../membership/index.ts';

/** A clock that differs by more than this from the time that has passed was set. */
const SET_CLOCK_MS = MINUTE_MS;
/** What is not measured any more, such as etcd on a former control plane, is forgotten after as many measurements as are kept. */
const FORGET_MS = 14 * 24 * MEASURE_EVERY_MS;

const NOTHING: GrowthHistory = { sizeBytes: 0, measurements: [] };

/** Ports of the recorder. */
export interface GrowthRecorderPorts {
  readonly saved: ChecksummedFile<SavedGrowth>;
  readonly clock: Clock;
  /** What is reported before it was measured too, so that a new node differs from one that does not measure. */
  readonly expected: readonly GrowthSubject[];
  /** Measures everything that can be measured now. */
  readonly measure: (signal: AbortSignal) => Promise<readonly (GrowthSubject & Measured)[]>;
}

/**
 * Measures the disks and databases of this node every hour, and remembers two weeks of it on disk. Where the clock is set, the earlier
 * measurements move along, so that their distance from now stays the time that has passed.
 */
export class GrowthRecorder {
  readonly #ports: GrowthRecorderPorts;
  #histories: SavedGrowth = [];
  /** Of `#histories`; computed once for each measurement, because Prometheus asks every few seconds. */
  #growths: readonly (GrowthSubject & Growth)[] = [];
  #seen: { readonly nowMs: number; readonly monotonicMs: number } | undefined;

  constructor(ports: GrowthRecorderPorts) {
    this.#ports = ports;
  }

  /** The growth of everything that is expected or remembered. */
  get growths(): readonly (GrowthSubject & Growth)[] {
    const known = new Set(this.#growths.map(keyOf));
    const unknown = this.#ports.expected.filter((each) => !known.has(keyOf(each)));
    return [...unknown.map((each) => ({ ...each, ...growthOf(NOTHING) })), ...this.#growths];
  }

  /** Measures until its signal fires. */
  readonly run: Runnable = async (scope) => {
    const { clock, measure } = this.#ports;
    this.#remember(await this.#load(scope.log));
    this.#followClock();
    scope.healthy();
    scope.waiting('next measurement');
    const newestMs = newestOf(this.#histories) ?? -Infinity;
    for (let waitMs = newestMs + MEASURE_EVERY_MS - clock.nowMs(); ; waitMs = MEASURE_EVERY_MS) {
      await clock.sleep(Math.max(0, waitMs), scope.signal);
      this.#followClock();
      this.#add(await measure(scope.signal));
      await this.#save(scope.log);
    }
  };

  #add(measured: readonly (GrowthSubject & Measured)[]): void {
    const nowMs = this.#ports.clock.nowMs();
    const known = new Map(this.#histories.map((each) => [keyOf(each), each]));
    for (const each of measured) {
      const { kind, name } = each;
      known.set(keyOf(each), { kind, name, ...addMeasurement(known.get(keyOf(each)), nowMs, each) });
    }
    this.#remember([...known.values()].filter((each) => nowMs - (newestOf([each]) ?? nowMs) < FORGET_MS));
  }

  #remember(histories: SavedGrowth): void {
    this.#histories = histories;
    this.#growths = histories.map((each) => ({ kind: each.kind, name: each.name, ...growthOf(each) }));
  }

  /**
   * Moves the measurements by as much as the clock was set. What happened to it while the agent did not run is not known: then the newest
   * measurement is at most moved to now.
   */
  #followClock(): void {
    const { clock } = this.#ports;
    const now = { nowMs: clock.nowMs(), monotonicMs: clock.monotonicMs() };
    const byMs =
      this.#seen === undefined
        ? Math.min(0, now.nowMs - (newestOf(this.#histories) ?? now.nowMs))
        : now.nowMs - this.#seen.nowMs - (now.monotonicMs - this.#seen.monotonicMs);
    this.#seen = now;
    if (Math.abs(byMs) <= SET_CLOCK_MS) return;
    this.#remember(this.#histories.map((each) => ({ ...each, ...shiftHistory(each, byMs) })));
  }

  /** Measurements are worth less than a running node: damaged ones are dropped. */
  async #load(log: Logger): Promise<SavedGrowth> {
    try {
      return (await this.#ports.saved.load()) ?? [];
    } catch (error) {
      log.warn('measurements of disks cannot be read, measuring again from now', { error });
      return [];
    }
  }

  async #save(log: Logger): Promise<void> {
    try {
      await this.#ports.saved.save(this.#histories);
    } catch (error) {
      log.warn('measurements of disks not saved, they are kept in memory', { error });
    }
  }
}

function keyOf({ kind, name }: GrowthSubject): string {
  return `${kind} ${name}`;
}

function newestOf(histories: SavedGrowth): number | undefined {
  const newest = histories.flatMap(({ measurements }) => measurements.at(-1)?.[0] ?? []);
  return newest.length === 0 ? undefined : Math.max(...newest);
}
