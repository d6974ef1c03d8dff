import { isClockForward, type TpmClock } from '../tpm/index.ts';

/** One time that a machine showed itself: an accepted quote. */
export interface ClockObservation {
  readonly attestationKeyNameHex: string;
  /** The machine's own node key, by fingerprint: a copy that joins by itself has another one. */
  readonly nodeKeyId: string;
  readonly clock: TpmClock;
  /** When it was seen, by the verifier's clock. */
  readonly seenAtMs: number;
}

/**
 * - `clock-behind`: the TPM was earlier than it had been. Its state was restored or runs a second time.
 * - `clock-ahead`: within one power-on the TPM counted more time than went by. Two run in turns.
 * - `two-nodes`: another node key on the same TPM while the first one was seen moments ago.
 * - `other-key`: another attestation key on the same TPM. It was cleared, or the key's secret was lost.
 */
export type TpmAnomalyKind = 'clock-behind' | 'clock-ahead' | 'two-nodes' | 'other-key';

/** What is no finding. */
export interface ClockTolerance {
  /**
   * How much later than it was quoted a sighting may come to be compared, and how far the clocks of several verifiers may
   * be apart.
   */
  readonly slackMs?: number;
  /** How much faster than the verifier's clock the TPM's may run. */
  readonly clockRate?: number;
}

export interface TpmAnomaly {
  readonly kind: TpmAnomalyKind;
  /** For the operator. */
  readonly text: string;
}

/** A machine is there if it was seen within this time. */
const PRESENT_MS = 10 * 60_000;
/** Clocks of TPMs may be off by a tenth, and a quote lies in a queue for a while. */
const CLOCK_TOLERANCE = 1.1;
const QUEUE_MS = 30_000;

/**
 * Compares a machine's new sighting with the last one of the same endorsement key. A software TPM's state file *is* its
 * identity and a copy of it answers every challenge; two copies cannot both keep one clock, and this says so. No finding
 * is no proof of a single machine: it takes two sightings to differ.
 */
export function compareClockObservations(
  last: ClockObservation,
  now: ClockObservation,
  { slackMs = 0, clockRate = CLOCK_TOLERANCE }: ClockTolerance = {},
): readonly TpmAnomaly[] {
  const findings: TpmAnomaly[] = [];
  if (last.attestationKeyNameHex !== now.attestationKeyNameHex) {
    findings.push(finding('other-key', last.attestationKeyNameHex, now.attestationKeyNameHex));
  }
  if (!isClockForward(last.clock, now.clock) && !isOvertaken(last.clock, now.clock, slackMs)) {
    findings.push(finding('clock-behind', describe(last.clock), describe(now.clock)));
  }
  if (isAhead(last, now, { slackMs, clockRate }))
    findings.push(finding('clock-ahead', describe(last.clock), describe(now.clock)));
  if (last.nodeKeyId !== now.nodeKeyId && now.seenAtMs - last.seenAtMs < PRESENT_MS) {
    findings.push(finding('two-nodes', last.nodeKeyId, now.nodeKeyId));
  }
  return findings;
}

/** The record to keep: the one whose clock is furthest, so that a copy that stays behind is found each time. */
export function latestClockObservation(
  last: ClockObservation | undefined,
  now: ClockObservation,
): ClockObservation {
  return last === undefined || isClockForward(last.clock, now.clock) ? now : last;
}

/** A session of the same power-on that was opened a little earlier and comes a little later. */
function isOvertaken(last: TpmClock, now: TpmClock, slackMs: number): boolean {
  const isSamePower = last.resetCount === now.resetCount && last.restartCount === now.restartCount;
  return isSamePower && Number(last.clockMs - now.clockMs) <= slackMs;
}

function isAhead(
  last: ClockObservation,
  now: ClockObservation,
  { slackMs, clockRate }: Required<ClockTolerance>,
): boolean {
  if (last.clock.resetCount !== now.clock.resetCount) return false;
  const elapsedMs = now.seenAtMs - last.seenAtMs;
  const countedMs = Number(now.clock.clockMs - last.clock.clockMs);
  return countedMs > elapsedMs * clockRate + QUEUE_MS + slackMs;
}

const MEANING: Readonly<Record<TpmAnomalyKind, string>> = {
  'clock-behind': 'its TPM went back in time: restored from a copy, or a copy of it runs elsewhere',
  'clock-ahead': 'its TPM counted more time than went by: two copies of it run at once',
  'two-nodes': 'two nodes with different keys use the same TPM at the same time: one is a copy',
  'other-key': 'its TPM shows another attestation key: it was cleared, or the key’s secret was lost',
};

function finding(kind: TpmAnomalyKind, before: string, now: string): TpmAnomaly {
  return { kind, text: `${MEANING[kind]} (${before}, now ${now})` };
}

function describe({ resetCount, restartCount, clockMs }: TpmClock): string {
  return `reset ${resetCount}, restart ${restartCount}, ${clockMs} ms`;
}
