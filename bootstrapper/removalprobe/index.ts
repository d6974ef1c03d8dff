/**
 * Tests whether any endpoint of the cluster would still admit a removed node (docs/threat-model.md section 8).
 *
 * ```
 * operator ── ProbeRemoved ──▶ curator ── ProbeTask ──▶ agent of a control plane
 *                                                         │ refuses the id of a member
 *                        CA keys on its own disk ──▶ test credentials ── TLS ──▶ etcd clients and peers, API server,
 *                                                         │                      kubelet, curator
 *          ◀──────────── answer of each endpoint ─────────┘ (never a certificate, never a key)
 * ```
 *
 * The agent runs the probe, not the signer: the signer signs only what a committed record allows, and no
 * record may allow test credentials. The agent has the same keys on its disk and runs as root, so no program
 * gains a new way to get a signature. A caller, even a compromised curator, chooses only the id of a node that
 * is not a member and a generation of keys; not the name in a credential, the endpoint or the lifetime.
 */
export { createTestCredential, type TestCredentialName } from './credentials.ts';
export { ENDPOINT_RULES, judgeAnswer } from './endpoints.ts';
export { createRemovalProbeTask } from './removal-probe.ts';
export { sendCredential } from './send-credential.ts';
