import { z } from 'zod';
import { NODE_STATES, ROLES } from '../role/index.ts';

const version = z.literal(1);
const bytes = z.base64();
const fingerprint = z.string().regex(/^sha256:[0-9a-f]{64}$/);

/** The cluster itself; written once, by its first node. */
export const clusterShape = z.strictObject({
  version,
  clusterId: z.string().min(1),
  clusterName: z.string().min(1),
  /** Grows when etcd is restored from a snapshot: a watch token of an older epoch means nothing any more. */
  epoch: z.int().positive(),
  /** The cluster CA. */
  caPem: z.string(),
  createdMs: z.int(),
  /** The first node, which made the cluster. */
  firstNodeId: z.string(),
});

/** A node as the cluster decided about it. What the node says about itself is its status, another record. */
export const nodeShape = z.strictObject({
  version,
  nodeId: z.string(),
  name: z.string(),
  /** SubjectPublicKeyInfo, DER. The record of this key is the membership. */
  pubKey: bytes,
  state: z.enum(NODE_STATES),
  roles: z.array(z.enum(ROLES)),
  labels: z.record(z.string(), z.string()),
  createdMs: z.int(),
});

export const OPERATOR_ROLES = ['viewer', 'operator', 'owner'] as const;
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/** A key of somebody who administers the cluster. */
export const operatorShape = z.strictObject({
  version,
  name: z.string(),
  fingerprint,
  role: z.enum(OPERATOR_ROLES),
  createdMs: z.int(),
});

/** The operator's configuration as the cluster has it: the document's exact bytes. */
export const configurationShape = z.strictObject({
  version,
  document: bytes,
  updatedMs: z.int(),
  updatedBy: z.string(),
});

/** The outcome of the init, kept for its owner: a serialized `cluster.init.v1.InitResult`. */
export const initResultShape = z.strictObject({ version, initId: z.string(), result: bytes });

/** What a node last said about itself: a serialized `cluster.curator.v1.NodeStatus`. */
export const statusShape = z.strictObject({ version, status: bytes, updatedMs: z.int() });

/** Proof of life; its key lives as long as the lease it is bound to. */
export const heartbeatShape = z.strictObject({ version, sinceMs: z.int() });

/** A mutation that has happened; its revision is the one at which this record was written. */
export const mutationShape = z.strictObject({ version, requestSha256: z.string() });

/** One decision: who changed what. */
export const auditShape = z.strictObject({
  version,
  timeMs: z.int(),
  caller: z.string(),
  method: z.string(),
  subject: z.string(),
  detail: z.record(z.string(), z.unknown()),
});

export type ClusterRecord = z.infer<typeof clusterShape>;
export type NodeRecord = z.infer<typeof nodeShape>;
export type OperatorRecord = z.infer<typeof operatorShape>;
export type ConfigurationRecord = z.infer<typeof configurationShape>;
export type InitResultRecord = z.infer<typeof initResultShape>;
export type StatusRecord = z.infer<typeof statusShape>;
export type HeartbeatRecord = z.infer<typeof heartbeatShape>;
export type MutationRecord = z.infer<typeof mutationShape>;
export type AuditRecord = z.infer<typeof auditShape>;
