/**
 * Tests whether a removed node would still be admitted: an agent of a control plane creates test credentials in the name of
 * the removed node, and with the keys that this node may have held, and presents them to every endpoint of every live node.
 *
 * ```
 * operator ── ProbeRemoved ──▶ curator ── ProbeTask ──▶ agent of a control plane
 *                                                         │ refuses the id of a member
 *                        CA keys on its own disk ──▶ test credentials ── TLS ──▶ etcd clients and peers, API server,
 *                                                         │                      kubelet, curator
 *          ◀──────────── what each endpoint answered ─────┘ (never a certificate, never a key)
 * ```
 *
 * The agent does this and not the signer, because the signer signs only what a committed record allows, and no record may
 * allow this. The agent already has the same keys on its disk and runs as root, so no program gains the ability to have
 * something signed. A caller, even a compromised curator, chooses only the id of a node that is no member: neither the name
 * in a credential, nor the endpoint, nor the lifetime. A test credential lives 60 seconds and names "removed:ID" wherever
 * a name could carry rights. Its key is created for the probe and never written. The agent runs one probe at a time.
 *
 * A refusal counts only where the endpoint admits a valid credential at that moment, shows the certificate of the cluster,
 * and refuses for the expected reason. A credential made with replaced keys must also be admitted when it is made with the
 * current keys; otherwise its refusal proves nothing.
 */
export { judgeAnswer } from './endpoints.ts';
export { RemovalProbeError, type RemovalProbeErrorCode } from './errors.ts';
export { probeHttps } from './probe-endpoint.ts';
export { runRemovalProbe, type RemovalProbeFiles, type RemovalProbeReport } from './removal-probe.ts';
export {
  createServiceAccountToken,
  createTestCertificate,
  type TestCertificateName,
} from './test-credentials.ts';
