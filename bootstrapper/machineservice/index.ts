/**
 * Services of this machine before and beside its cluster: root over a Unix socket, owners over the init port, the console.
 *
 * ```
 * enrolment.status ─┐
 * joinClient.status ├─▶ enrolmentEvent (pure) ─▶ WatchEnrolment
 * kubernetesStatus ─┘                            Direct ─▶ DirectedEndpoints on disk ─▶ JoinClient asks at once
 * phases ───────────┘
 * ```
 * No service here admits the machine to a cluster: the join service does, after attestation.
 */
export { AGENT_SOCKET, agentSocketRunnable } from './agent-socket.ts';
export { consoleRunnable } from './console.ts';
export { initServerRunnable } from './init-port.ts';
export { type MachineServicePorts, type QuorumRecovery } from './machine-handlers.ts';
