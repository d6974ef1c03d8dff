/**
 * Tests whether any endpoint of the cluster would still admit a removed node. An agent of a control plane
 * creates test credentials in the name of the removed node, and credentials with the keys that the node may
 * have held. It presents these credentials to every endpoint of every live node.
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
 * record may allow test credentials. The agent already has the same keys on its disk and runs as root. No
 * program therefore gains a new way to get a signature. A caller, even a compromised curator, chooses only
 * the id of a node that is not a member. It does not choose the name in a credential, the endpoint or the
 * lifetime. A test credential is valid for 60 seconds and names "removed:ID" wherever a name could have
 * permissions. Its key is created for the probe and never written to disk. The agent runs one probe at a
 * time.
 *
 * A refusal counts only if the endpoint admits a valid credential at that moment, presents the certificate of
 * the cluster, and refuses for the expected reason. In addition, the endpoint must admit a credential of the
 * current keys if it refuses one of replaced keys; otherwise the refusal proves nothing.
 */
export { judgeAnswer } from './judge-answer.ts';
export { probeHttps } from './probe-endpoint.ts';
export { createRemovalProbeTask } from './removal-probe.ts';
export {
  createServiceAccountToken,
  createTestCertificate,
  type TestCertificateName,
} from './test-credentials.ts';
