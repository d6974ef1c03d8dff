import { z } from 'zod';
import { KEY_PHASES } from '../keyset/index.ts';
import { NODE_STATES, ROLES } from '../role/index.ts';

const version = z.literal(1);
const bytes = z.base64();
const hex = z.string().regex(/^[0-9a-f]{64}$/);
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

/** The epoch of the Kubernetes etcd, kept in that etcd itself: two epochs are two clusters with one history. */
export const etcdEpochShape = z.strictObject({ version, epoch: z.int().positive() });

/** How every node is to run Kubernetes, with the manifest of the bundle: the same on all of them. */
export const settingsShape = z.strictObject({
  version,
  clusterName: z.string().min(1),
  kubernetesVersion: z.string().min(1),
  podSubnet: z.string().min(1),
  serviceSubnet: z.string().min(1),
  apiServerSans: z.array(z.string()),
  /** The manifest's exact text: its hash is what components are checked against. */
  bundleManifest: z.string(),
  /** "host:port" of the operator's own balancer of the API servers. */
  apiEndpoint: z.string().min(1).optional(),
  /** How long certificates live, as the cluster was made. */
  certificates: z
    .strictObject({
      nodeMinutes: z.int().positive(),
      kubeletMinutes: z.int().positive(),
      controlPlaneMinutes: z.int().positive(),
    })
    .optional(),
  /** What pods may ask of machines; absent where the cluster was made before this was decided: nothing is enforced there. */
  podSecurity: z
    .strictObject({
      enforce: z.enum(['privileged', 'baseline', 'restricted']),
      exemptNamespaces: z.array(z.string()),
      allowCloudMetadata: z.boolean(),
    })
    .optional(),
});

/** Whose cluster this is: the owner's signature over `ownershipStatement` (internal/crypto). */
export const ownershipShape = z.strictObject({
  version,
  epoch: z.int().positive(),
  /** Raw Ed25519. */
  ownerPubKey: bytes,
  signature: bytes,
  timeMs: z.int(),
});

export const EVIDENCE_PROFILES = ['measured', 'identity'] as const;
export type EvidenceProfile = (typeof EVIDENCE_PROFILES)[number];

/** What a machine proved, once: never the evidence itself. */
const machineShape = z.strictObject({
  /** As policies list it, e.g. "tpm-ek:90ab…". */
  identity: z.string().min(1),
  /** `endorsed` by the manufacturer, `pinned` by an operator (inventory or approval), or neither yet. */
  proof: z.enum(['endorsed', 'pinned', 'unproved']),
  variant: z.string().min(1),
  profile: z.enum(EVIDENCE_PROFILES),
  /** Name (hex) of the attestation key that belongs to this identity; absent without a TPM. */
  akName: z.string().optional(),
  /** What its TPM's lock counter certified at the commit, in decimal; absent where it does not count. */
  lockCounter: z
    .string()
    .regex(/^\d{1,20}$/)
    .optional(),
  /** SHA-256 (hex) over what the verdict of the evidence was. */
  evidenceDigest: hex,
  /** Of the attestation policy that decided. */
  policyVersion: z.string(),
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
  /** How it came in. Absent where the node was there before anybody could ask it: the first one of an old cluster. */
  admission: machineShape.extend({ decidedBy: z.string(), timeMs: z.int() }).optional(),
});

/** One membership per machine: `identities/IDENTITY`. Stays while the node's record does, decommissioned or not. */
export const identityShape = z.strictObject({
  version,
  nodeId: z.string(),
  /** Name (hex) of its attestation key: by it evidence of this machine is known again. */
  akName: z.string().optional(),
  /** The furthest that its TPM's clock has been seen, and when: a copy cannot keep the same one. */
  sighting: z
    .strictObject({
      clockMs: z.string().regex(/^\d{1,20}$/),
      resetCount: z.int(),
      restartCount: z.int(),
      safe: z.boolean(),
      seenAtMs: z.int(),
    })
    .optional(),
});

export const JOIN_STATES = ['pending', 'approved', 'refused', 'joined'] as const;
export type JoinRecordState = (typeof JOIN_STATES)[number];

/** A machine that asked to be let in, and what came of it. One per key, however often it asks. */
export const joinShape = z.strictObject({
  version,
  nodeId: z.string(),
  pubKey: bytes,
  state: z.enum(JOIN_STATES),
  machine: machineShape,
  /** What the machine says of itself; proves nothing. */
  claimed: z.strictObject({
    hostname: z.string(),
    address: z.string(),
    name: z.string(),
    roles: z.array(z.string()),
    agentVersion: z.string(),
    /** Its clock less ours. */
    clockOffsetMs: z.int(),
  }),
  decision: z
    .strictObject({
      name: z.string(),
      roles: z.array(z.enum(ROLES)),
      labels: z.record(z.string(), z.string()),
      /** "operator:NAME" or "policy:VERSION". */
      by: z.string(),
      timeMs: z.int(),
      /** Of an approval: to be committed before. */
      expiresMs: z.int(),
    })
    .optional(),
  /** Why it waits or was refused: a code, and a sentence for operators. */
  code: z.string(),
  message: z.string(),
  firstSeenMs: z.int(),
  lastSeenMs: z.int(),
  attempts: z.int().positive(),
});

export const TRACE_OUTCOMES = ['pass', 'warn', 'fail', 'wait'] as const;

/** What both sides found on a machine's way in: the newest of each (side, name). */
export const traceShape = z.strictObject({
  version,
  nodeId: z.string(),
  facts: z
    .array(
      z.strictObject({
        side: z.enum(['cluster', 'machine']),
        name: z.string(),
        outcome: z.enum(TRACE_OUTCOMES),
        expected: z.string(),
        actual: z.string(),
        fix: z.string(),
        code: z.string(),
        timeMs: z.int(),
      }),
    )
    .max(64),
});

/** A machine that was removed: refused under every policy until an owner has signed its readmission. Never deleted. */
export const removedShape = z.strictObject({
  version,
  identity: z.string().min(1),
  /** How often it was removed; a readmission lifts one removal and those before it. */
  removal: z.int().positive(),
  /** What it was last. */
  nodeId: z.string(),
  name: z.string(),
  removedMs: z.int(),
  removedBy: z.string(),
});

/** A document that an owner signed (internal/ownerdocument), as it was submitted: its exact bytes. */
export const documentShape = z.strictObject({
  version,
  document: bytes,
  recordedMs: z.int(),
  recordedBy: z.string(),
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

/** What AMD and Intel say beside evidence, as an operator handed it on: the bundle's exact bytes. */
export const collateralShape = z.strictObject({
  version,
  bundle: bytes,
  /** The highest TCB evaluation number of Intel that was ever used here; only grows. */
  evaluationNumber: z.int().min(0),
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

/** One decision: who changed what. The chain is over the exact bytes of each (internal/audit). */
export const auditShape = z.strictObject({
  version: z.literal(2),
  /** From 1, without a gap. */
  seq: z.int().positive(),
  /** Hash of the entry before; 64 zeros before the first. */
  previous: hex,
  timeMs: z.int(),
  caller: z.string(),
  method: z.string(),
  subject: z.string(),
  detail: z.record(z.string(), z.unknown()),
});

/** Where the chain ends: whoever appends replaces it in the same transaction. */
export const auditHeadShape = z.strictObject({
  version,
  seq: z.int().nonnegative(),
  hash: hex,
  /** The oldest entry that is kept. */
  firstSeq: z.int().positive(),
});

/** PEM. */
const publicsShape = z.strictObject({
  'etcd-clients-ca': z.string().min(1),
  'etcd-peers-ca': z.string().min(1),
  'state-clients-ca': z.string().min(1),
  'state-peers-ca': z.string().min(1),
  'kubernetes-clients-ca': z.string().min(1),
  'front-proxy-ca': z.string().min(1),
  'service-account': z.string().min(1),
});

/**
 * How far the cluster is with replacing the keys that control planes share (internal/keyset). Public halves only: the
 * private ones go from one control plane to the others in tickets.
 */
export const keysShape = z.strictObject({
  version,
  generation: z.int().min(2),
  /** `asked`: nobody has made the new ones yet. */
  phase: z.enum(['asked', ...KEY_PHASES]),
  startedMs: z.int(),
  phaseSinceMs: z.int(),
  /** As in the audit, e.g. "operator:NAME". */
  startedBy: z.string(),
  reason: z.string(),
  /** Absent while they are asked for. */
  made: z.strictObject({ by: z.string(), previous: publicsShape, next: publicsShape }).optional(),
});

export type KeysRecord = z.infer<typeof keysShape>;
export type SettingsRecord = z.infer<typeof settingsShape>;
export type OwnershipRecord = z.infer<typeof ownershipShape>;
export type MachineRecord = z.infer<typeof machineShape>;
export type RemovedRecord = z.infer<typeof removedShape>;
export type DocumentRecord = z.infer<typeof documentShape>;
export type IdentityRecord = z.infer<typeof identityShape>;
export type JoinRecord = z.infer<typeof joinShape>;
export type TraceRecord = z.infer<typeof traceShape>;
export type TraceFactRecord = TraceRecord['facts'][number];
export type AuditHeadRecord = z.infer<typeof auditHeadShape>;
export type ClusterRecord = z.infer<typeof clusterShape>;
export type NodeRecord = z.infer<typeof nodeShape>;
export type OperatorRecord = z.infer<typeof operatorShape>;
export type ConfigurationRecord = z.infer<typeof configurationShape>;
export type CollateralRecord = z.infer<typeof collateralShape>;
export type InitResultRecord = z.infer<typeof initResultShape>;
export type StatusRecord = z.infer<typeof statusShape>;
export type HeartbeatRecord = z.infer<typeof heartbeatShape>;
export type MutationRecord = z.infer<typeof mutationShape>;
export type AuditRecord = z.infer<typeof auditShape>;
