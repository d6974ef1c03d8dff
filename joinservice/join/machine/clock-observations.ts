import type { AttestedPeer } from '../../../internal/atls/index.ts';
import {
  compareClockObservations,
  latestClockObservation,
  type ClockObservation,
} from '../../../internal/attestation/enrolment/index.ts';
import { clockOfVerdict } from '../../../internal/attestation/tpm/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import { records, type IdentityRecord, type NodeRecord } from '../../../internal/records/index.ts';
import { JoinError } from '../errors.ts';

/** The maximum age of a session at its call, plus the difference between the clocks of control planes. */
const SLACK_MS = 5 * 60_000;
/**
 * A TPM clock may be adjusted to run a third faster (TPM 2.0 Part 3, TPM2_ClockRateAdjust), so a faster clock
 * is no sign of a copy.
 */
const CLOCK_RATE = 1.35;
const TOLERANCE = { slackMs: SLACK_MS, clockRate: CLOCK_RATE };
const TRIES = 8;
/** A member may request tickets as often as it likes, and writes no more often than this. Far below `SLACK_MS`. */
const WRITE_EACH_MS = 10_000;

/**
 * The TPM clocks that members have shown. The state of a software TPM is a file, so a copy of this file and
 * of the disk has every key of the machine. Only one of two copies can continue the clock that was observed
 * last; the join service refuses the other copy.
 */
export class ClockObservations {
  readonly #ports: { readonly etcd: KeySpace; readonly clock: Clock };

  constructor(ports: { readonly etcd: KeySpace; readonly clock: Clock }) {
    this.#ports = ports;
  }

  /**
   * Compares the TPM clock in this session's quote with the clock that the same member showed last, and stores the
   * later of both, at most every `WRITE_EACH_MS`.
   * @throws JoinError `join-machine-copied`
   */
  async record({ nodeId, admission }: NodeRecord, peer: AttestedPeer, signal: AbortSignal): Promise<void> {
    const { etcd, clock: ownClock } = this.#ports;
    const clock = clockOfVerdict(peer);
    if (clock === undefined || admission?.akName === undefined) return;
    const now = {
      attestationKeyNameHex: admission.akName,
      nodeKeyId: nodeId,
      clock,
      seenAtMs: ownClock.nowMs(),
    };
    const key = records.identity.key(admission.identity);
    for (let tries = 0; tries < TRIES; tries++) {
      const { record, unchanged } = await records.identity.read(etcd, key, signal);
      if (record === undefined) return; // The record was deleted in the meantime. A later step then refuses the ticket.
      const last = storedObservation(record, now);
      const [copied] = last === undefined ? [] : compareClockObservations(last, now, TOLERANCE);
      if (copied !== undefined)
        throw new JoinError('join-machine-copied', `issuing ticket to ${nodeId}: ${copied.text}`, {
          details: { kind: copied.kind },
        });
      if (last !== undefined && isStillRecent(last, now)) return;
      const kept = { ...record, sighting: observationRecord(latestClockObservation(last, now)) };
      const change = { when: [unchanged], then: [records.identity.put(key, kept)] };
      if ((await etcd.commit(change, { signal })).kind === 'committed') return;
    }
    throw new JoinError(
      'join-busy',
      `issuing ticket to ${nodeId}: its records were changed ${TRIES} times meanwhile`,
    );
  }
}

/** Whether the stored observation is from the same boot and so recent that the new observation need not be stored. */
function isStillRecent(last: ClockObservation, now: ClockObservation): boolean {
  const sinceMs = now.seenAtMs - last.seenAtMs;
  const isSameBoot =
    last.clock.resetCount === now.clock.resetCount && last.clock.restartCount === now.clock.restartCount;
  return isSameBoot && sinceMs >= 0 && sinceMs < WRITE_EACH_MS;
}

function storedObservation(
  { sighting }: IdentityRecord,
  now: ClockObservation,
): ClockObservation | undefined {
  if (sighting === undefined) return undefined;
  const { clockMs, seenAtMs, ...counts } = sighting;
  return { ...now, clock: { ...counts, clockMs: BigInt(clockMs) }, seenAtMs };
}

function observationRecord({ clock, seenAtMs }: ClockObservation): NonNullable<IdentityRecord['sighting']> {
  const { clockMs, resetCount, restartCount, safe } = clock;
  return { clockMs: clockMs.toString(), resetCount, restartCount, safe, seenAtMs };
}
