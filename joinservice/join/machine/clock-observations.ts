import type { AttestedPeer } from '../../../internal/atls/index.ts';
import {
  compareClockObservations,
  latestClockObservation,
  type ClockObservation,
} from '../../../internal/attestation/enrolment/index.ts';
import { clockOfVerdict } from '../../../internal/attestation/tpm/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import { put, unchanged, type KeySpace } from '../../../internal/etcd/index.ts';
import { records, type IdentityRecord, type NodeRecord } from '../../../internal/records/index.ts';
import { JoinError } from '../errors.ts';

/** A session may be that old when its call comes, and control planes' clocks that far apart. */
const SLACK_MS = 5 * 60_000;
/** A TPM's clock may run a third faster by adjustment (Part 3, TPM2_ClockRateAdjust): that is no copy. */
const CLOCK_RATE = 1.35;
const TOLERANCE = { slackMs: SLACK_MS, clockRate: CLOCK_RATE };
const TRIES = 8;

/**
 * The times that a member's TPM has shown. A software TPM's state is a file: a copy of it and of the disk has every key of
 * the machine, and only one of the two can keep the clock that was seen last.
 */
export class ClockObservations {
  readonly #etcd: KeySpace;
  readonly #clock: Clock;

  constructor(ports: { readonly etcd: KeySpace; readonly clock: Clock }) {
    this.#etcd = ports.etcd;
    this.#clock = ports.clock;
  }

  /** Compares this session's quote with the furthest one of the same member and keeps the further. @throws join-machine-copied */
  async record({ nodeId, admission }: NodeRecord, peer: AttestedPeer, signal: AbortSignal): Promise<void> {
    const clock = clockOfVerdict(peer);
    if (clock === undefined || admission?.akName === undefined) return;
    const now = {
      attestationKeyNameHex: admission.akName,
      nodeKeyId: nodeId,
      clock,
      seenAtMs: this.#clock.nowMs(),
    };
    const key = records.identity.key(admission.identity);
    for (let tries = 0; tries < TRIES; tries++) {
      const entry = await this.#etcd.get(key, { signal });
      if (entry === undefined) return; // deleted meanwhile: whoever mints sees it
      const record = records.identity.decode(key, entry.value);
      const last = sightingIn(record, now);
      const [copied] = last === undefined ? [] : compareClockObservations(last, now, TOLERANCE);
      if (copied !== undefined)
        throw new JoinError('join-machine-copied', `ticketing ${nodeId}: ${copied.text}`, {
          details: { kind: copied.kind },
        });
      const kept = { ...record, sighting: written(latestClockObservation(last, now)) };
      const change = { when: [unchanged(entry)], then: [put(key, records.identity.encode(kept))] };
      if ((await this.#etcd.commit(change, { signal })).kind === 'committed') return;
    }
    throw new JoinError('join-busy', `ticketing ${nodeId}: ${TRIES} tries were overtaken`);
  }
}

function sightingIn({ sighting }: IdentityRecord, now: ClockObservation): ClockObservation | undefined {
  if (sighting === undefined) return undefined;
  const { clockMs, seenAtMs, ...counts } = sighting;
  return { ...now, clock: { ...counts, clockMs: BigInt(clockMs) }, seenAtMs };
}

function written({ clock, seenAtMs }: ClockObservation): NonNullable<IdentityRecord['sighting']> {
  const { clockMs, resetCount, restartCount, safe } = clock;
  return { clockMs: clockMs.toString(), resetCount, restartCount, safe, seenAtMs };
}
