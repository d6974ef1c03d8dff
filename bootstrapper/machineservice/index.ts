/**
 * Services of this machine that need no cluster: for root over a Unix socket, for owners over the init port, and on the console.
 *
 * ```
 * enrolment.status ─┐
 * joinClient.status ├─▶ enrolmentEvent (pure) ─▶ WatchEnrolment
 * kubernetesStatus ─┘                            Direct ─▶ DirectedEndpoints on disk ─▶ JoinClient retries at once
 * phases ───────────┘
 * ```
 * None of these services admits the machine to a cluster. Only the join service does that, after attestation.
 */
export { AGENT_SOCKET, agentSocketRunnable, refusingSocketRunnable } from './agent-socket.ts';
export { findCodeSources } from './code-entry.ts';
export { challengeLines, consoleRunnable, failureText, printOnConsole, showOnConsole } from './console.ts';
export { initServerRunnable } from './init-port.ts';
export { serveLockedDisk, type ConsoleEntry } from './locked-disk.ts';
export { openConsole } from './open-console.ts';
