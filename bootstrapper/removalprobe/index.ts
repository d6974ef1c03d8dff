/**
 * Whether a removed node would still be let in, tried and not believed: papers in its name, and what the keys that it may
 * have held make, are shown at every door of every node that is there.
 *
 * ```
 * operator ── ProbeRemoved ──▶ curator ── ProbeTask ──▶ agent of a control plane
 *                                                         │ is this id a member? then nothing is made
 *             keys of the authorities, on its own disk ──▶ papers ── TLS ──▶ etcd client, etcd peer, API server, kubelet,
 *                                                         │                  curator
 *          ◀────────── what each door said ───────────────┘ (never a certificate, never a key)
 * ```
 *
 * Why here and not in the signer: the signer signs what a committed record allows, and there must be none of this. The
 * agent has the same keys on its disk and is root; so nothing new can have anything signed, and the signer's contract
 * stays as it was. Whoever asks, a curator that was taken over too, chooses nothing but an id that is no member's: not the
 * name in a paper, not the door, not the time. A paper lives a minute, says "removed:ID" where a name would have rights,
 * and its key is made for the trial and never written. What can come of asking is work for the doors, one round at a time.
 *
 * A refusal counts only where who belongs there was let in at that moment, the server showed the cluster's certificate,
 * and the reason is the one that is to be proved. Papers of keys that were replaced are refused only where the same paper,
 * made with the keys of now, is let in.
 */
export { judgeAnswer } from './endpoints.ts';
export { RemovalProbeError, removalProbeErrors, type RemovalProbeErrorCode } from './errors.ts';
export { probeHttps } from './probe-endpoint.ts';
export { createTestCertificate, type TestCertificateName } from './test-credentials.ts';
export { createServiceAccountToken } from './service-account-token.ts';
export { runRemovalProbe, type RemovalProbeFiles, type RemovalProbeReport } from './removal-probe.ts';
