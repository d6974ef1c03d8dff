import type { MachineIdentity, Variant, Verdict } from '../attestation/index.ts';

/** What both ends know of their connection, whatever the evidence. */
export interface PeerSession {
  /**
   * 64 bytes that both ends of this session have, and no other session: what a program signs to prove a key of its own
   * here (docs/atls.md §4). Not secret.
   */
  readonly session: Uint8Array;
}

/** A peer that proved, for this very session, which machine and software it is. Only this directory makes one. */
export interface AttestedPeer extends PeerSession {
  readonly kind: 'attested';
  readonly variant: Variant;
  readonly measurements: Verdict['measurements'];
  readonly machineIdentity: MachineIdentity;
  readonly claims: Verdict['claims'];
  readonly verdict: Verdict;
}

/** A peer that was asked for nothing, because the mode says `one-way-show`. */
export interface UnattestedPeer extends PeerSession {
  readonly kind: 'unproven';
}

export function attestedPeer(verdict: Verdict, session: Uint8Array): AttestedPeer {
  const { variant, measurements, machineIdentity, claims } = verdict;
  return Object.freeze({
    kind: 'attested',
    session: kept(session),
    variant,
    measurements,
    machineIdentity,
    claims,
    verdict,
  });
}

export function unattestedPeer(session: Uint8Array): UnattestedPeer {
  return Object.freeze({ kind: 'unproven', session: kept(session) });
}

/** A copy that keeps nothing else alive, and of so few bytes V8 keeps it without a buffer beside. */
function kept(session: Uint8Array): Uint8Array {
  return Uint8Array.from(session);
}
