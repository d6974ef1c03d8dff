import type { MachineIdentity, Variant, Verdict } from '../attestation/index.ts';

/** Facts that both ends know about their connection, independent of the kind of evidence. */
export interface PeerSession {
  /**
   * 64 bytes that are the same at both ends and unique to this session. A program signs them to prove to this peer that
   * it holds a private key (docs/atls.md §4). Not secret.
   */
  readonly session: Uint8Array;
}

/** A peer that proved, for this session, which machine and software it is. Created only in internal/atls. */
export interface AttestedPeer extends PeerSession {
  readonly kind: 'attested';
  readonly variant: Variant;
  readonly measurements: Verdict['measurements'];
  readonly machineIdentity: MachineIdentity;
  readonly claims: Verdict['claims'];
  readonly verdict: Verdict;
}

/** A peer that was not asked for evidence, in the mode `one-way-show`. */
export interface UnattestedPeer extends PeerSession {
  readonly kind: 'unproven';
}

/** The peer that a verdict describes. `session`: see `PeerSession`. */
export function attestedPeer(verdict: Verdict, session: Uint8Array): AttestedPeer {
  const { variant, measurements, machineIdentity, claims } = verdict;
  return Object.freeze({
    kind: 'attested',
    session: copyOf(session),
    variant,
    measurements,
    machineIdentity,
    claims,
    verdict,
  });
}

/** A peer without evidence. */
export function unattestedPeer(session: Uint8Array): UnattestedPeer {
  return Object.freeze({ kind: 'unproven', session: copyOf(session) });
}

/** A copy that keeps no larger buffer alive. V8 stores arrays this small without a separate buffer. */
function copyOf(session: Uint8Array): Uint8Array {
  return Uint8Array.from(session);
}
