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
export { machineHandlers, type MachineServicePorts, type QuorumRecovery } from './machine-handlers.ts';
export { AGENT_SOCKET, agentSocketRunnable } from './agent-socket.ts';
