/**
 * The systemd units of the agent's own services. The agent writes the configuration and the unit of each service,
 * starts the service and checks whether it serves. The services keep running when the agent stops.
 *
 * ```
 * unit                 runs on        user                        files and keys
 * cluster-joinservice  control plane  cluster-joinservice         systemd credentials
 * cluster-signer       control plane  cluster-signer, no network  the CA keys as systemd credentials; the
 *                                                                 agent repeats `SignerUnit.start` until all
 *                                                                 keys exist
 * cluster-relay        worker         none (DynamicUser)          none: TLS is between client and server
 * cluster-exporter     every node, if none (DynamicUser)          the kubelet's serving certificate and key, as
 *                      configured                                 systemd credentials
 *
 * node that was off for long ── 9093 ─▶ cluster-relay.service ── 9091 ─▶ curator
 *                            ── 9094 ─▶   (this worker)       ── 9090 ─▶ join service, for new certificates
 * ```
 * The relay (`node that was off for long` above) serves nodes that know none of the current control planes. It is a
 * separate unit, not a part of the node-local balancer, so that untrusted peers cannot affect services on which this
 * node depends. A peer that is reached through a relay must present a certificate of a node that runs a control plane.
 */
export { ensureCurator } from './curator-unit.ts';
export { ensureSystemUser, ensureUnit } from './ensure-unit.ts';
export { UnitError } from './errors.ts';
export { JOINSERVICE_UNIT } from './joinservice-unit.ts';
export { JOINSERVICE_USER } from './service-unit.ts';
export { buildForwarderUnit, ensureForwarder } from './forwarder-unit.ts';
export { buildExporterUnit, ensureExporter, EXPORTER_UNIT, readExporterUnit } from './exporter-unit.ts';
export { ensureRelay, RELAY_UNIT } from './relay-unit.ts';
export { SIGNER_STATE_DIRECTORY, SIGNER_UNIT, type SignerCluster } from './signer-config.ts';
export { SignerUnit, type SignerUnitPorts } from './signer-unit.ts';
