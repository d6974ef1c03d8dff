/**
 * The Init contract on the node: who may ask, what is accepted once, and how the owner watches it.
 *
 *     owner ── Init(id, spec) ──▶ InitJob ── accepted ──▶ enrolment ── bootstrapData ──▶ role server
 *     owner ◀── events, result ── PhaseLog, outcome ◀──────────── phases, kubernetesStatus ───┘
 */
export { InitError, initErrors, type InitErrorCode } from './errors.ts';
export { wireResult } from './event-stream.ts';
export { createInitServer } from './init-server.ts';
export {
  InitJob,
  type Acknowledgement,
  type InitJobPorts,
  type InitOutcome,
  type InitRecord,
} from './init-job.ts';
export {
  createInitHandlers,
  type BlobUploads,
  type InitServicePorts,
  type OwnerPeer,
  type PreflightAsk,
} from './init-service.ts';
export { type InitSpec } from './spec.ts';
