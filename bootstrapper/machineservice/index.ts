/**
 * What those who may direct this machine see of it: root over a Unix socket, an owner over the init port.
 *
 * ```
 * enrolment.status ─┐
 * joinClient.status ├─▶ enrolmentEvent (pure) ─▶ WatchEnrolment
 * kubernetesStatus ─┘                            Direct ─▶ DirectedEndpoints on disk ─▶ JoinClient asks at once
 * phases ───────────┘
 * ```
 * Nothing here admits the machine: its cluster does, after it has proved itself.
 */
export { AGENT_SOCKET, agentSocketRunnable } from './agent-socket.ts';
export { consoleRunnable } from './console.ts';
export { initServerRunnable } from './init-port.ts';
export { type MachineServicePorts, type QuorumRecovery, machineHandlers } from './machine-handlers.ts';
