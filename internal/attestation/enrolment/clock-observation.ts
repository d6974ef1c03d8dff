import { describeClock, isClockForward, type TpmClock } from '../tpm/index.ts';

/** The TPM clock and keys of a machine in an accepted quote. */
export interface ClockObservation {
  readonly attestationKeyNameHex: string;
  /** Fingerprint of the machine's node key. A copy of the machine that joins separately has another node key. */
  readonly nodeKeyId: string;
  readonly clock: TpmClock;
  /** When the quote was verified, by the verifier's clock. */
  readonly seenAtMs: number;
}

/**
 * Signs of a copied TPM state.
 * - `clock-behind`: the TPM clock went back. The TPM state was restored, or a copy of it is running.
 * - `clock-ahead`: since power-on the TPM counted more time than has passed. Two copies are running.
 * - `two-nodes`: another node key uses the same TPM, although the node with the first key was seen recently.
 * - `other-key`: another attestation key on the same TPM. The TPM was cleared, or the secret of the key was lost.
 */
type TpmAnomalyKind = 'clock-behind' | 'clock-ahead' | 'two-nodes' | 'other-key';

/** How far two clocks may differ without being an anomaly. */
export interface ClockTolerance {
  /** Delay between a quote and its comparison, and difference between the clocks of several verifiers. */
  readonly slackMs?: number;
  /** How much faster than the verifier's clock the TPM clock may run; 1.1 means 10 %. */
  readonly clockRate?: number;
}

/** A sign of a copied TPM state. */
interface TpmAnomaly {
  readonly kind: TpmAnomalyKind;
  /** The meaning of the anomaly, for the operator. */
  readonly text: string;
}

/** A machine counts as running if it was seen within this time. */
const PRESENT_MS = 10 * 60_000;
/** TPM clocks may deviate by a tenth, and a quote may wait in a queue. */
const CLOCK_TOLERANCE = 1.1;
const QUEUE_MS = 30_000;

/**
 * Compares an observation with the last one of the same endorsement key. A copy of the state file of a software TPM can
 * answer every challenge, but two copies cannot have the same clock. An empty result does not prove that there is only
 * one machine.
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
    findings.push(finding('clock-behind', describeClock(last.clock), describeClock(now.clock)));
  }
  if (isAhead(last, now, { slackMs, clockRate }))
    findings.push(finding('clock-ahead', describeClock(last.clock), describeClock(now.clock)));
  if (last.nodeKeyId !== now.nodeKeyId && now.seenAtMs - last.seenAtMs < PRESENT_MS) {
    findings.push(finding('two-nodes', last.nodeKeyId, now.nodeKeyId));
  }
  return findings;
}

/** The observation to keep: the one with the latest clock, so that a copy that is behind is detected each time. */
export function latestClockObservation(
  last: ClockObservation | undefined,
  now: ClockObservation,
): ClockObservation {
  return last === undefined || isClockForward(last.clock, now.clock) ? now : last;
}

/**
 * Whether the clock is behind only because two sessions overlapped: the session of `now` started before the session of
 * `last`, and ended after it. The difference is at most `slackMs`.
 */
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
  'clock-behind': 'the TPM clock went back: the TPM was restored from a copy, or a copy is running elsewhere',
  'clock-ahead': 'the TPM counted more time than has passed: two copies of it are running',
  'two-nodes': 'two nodes with different keys use the same TPM at the same time: one of them is a copy',
  'other-key': 'the TPM has another attestation key: it was cleared, or the secret of the key was lost',
};

function finding(kind: TpmAnomalyKind, before: string, now: string): TpmAnomaly {
  return { kind, text: `${MEANING[kind]} (${before}, now ${now})` };
}
