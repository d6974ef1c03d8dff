/**
 * Serves the Init contract on this node: authenticates owners, accepts one init, and streams its progress.
 *
 *     owner ── Init(id, spec) ──▶ InitJob ── accepted ──▶ enrolment ── bootstrapData ──▶ role server
 *     owner ◀── events, result ── PhaseLog, outcome ◀──────────── phases, kubernetesStatus ───┘
 */
export { wireResult } from './stream-job.ts';
export { createInitServer, createOwnerServer, type OwnerServerOptions } from './init-server.ts';
export { InitJob, type Acknowledgement, type InitOutcome, type InitRecord } from './init-job.ts';
export {
  createInitHandlers,
  createRefusingInitHandlers,
  type BlobUploads,
  type InitServicePorts,
  type MachineDescriptionPorts,
  type OwnerPeer,
  type PreflightQuery,
} from './init-service.ts';
export type { InitRestore, InitSpec } from './init-spec.ts';
