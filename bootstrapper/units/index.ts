/**
 * The agent's own services as systemd units. The agent writes configuration and unit, starts them and watches whether they
 * serve; they outlive the agent.
 *
 * | unit | where | user | what it gets |
 * |---|---|---|---|
 * | cluster-joinservice | control plane | cluster-joinservice | keys as systemd credentials: the agent's files stay root's |
 * | cluster-signer | control plane | cluster-signer, no network | the CA keys as credentials; `SignerUnit.start` is repeated until all exist |
 * | cluster-relay | worker | none (DynamicUser) | nothing: TLS is between both ends |
 *
 * ```
 * node that was off for long ── 9093 ─▶ cluster-relay.service ── 9091 ─▶ curator
 *                            ── 9094 ─▶   (this worker)       ── 9090 ─▶ join service, for new certificates
 * ```
 * The relay serves nodes that know none of the current control planes. It is a unit of its own beside the balancer of the
 * API servers, so that untrusted peers affect nothing that this node depends on. A peer reached through a relay must show a
 * certificate that says that its owner runs a control plane.
 */
export { CuratorUnit, type CuratorUnitConfig, type CuratorUnitPorts } from './curator-unit.ts';
export { ensureSystemUser, ensureUnit, type ServiceUnits } from './ensure-unit.ts';
export { UnitError, type UnitErrorCode } from './errors.ts';
export {
  JOINSERVICE_UNIT,
  JOINSERVICE_USER,
  type JoinserviceFiles,
  type JoinserviceSettings,
} from './joinservice-unit.ts';
export { buildForwarderUnit, ensureForwarder } from './forwarder-unit.ts';
export { ensureRelay, RELAY_UNIT } from './relay-unit.ts';
export {
  ETCD_PROXY_SOCKET,
  SIGNER_SOCKET,
  SIGNER_STATE_DIRECTORY,
  SIGNER_UNIT,
  type SignerCluster,
} from './signer-config.ts';
export { SignerUnit, type SignerUnitConfig, type SignerUnitPorts } from './signer-unit.ts';
