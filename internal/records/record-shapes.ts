import { z } from 'zod';
import { extraArgumentsSchema } from '../config/index.ts';
import { storedPhase } from '../keyset/index.ts';
import { OPERATOR_ROLES } from '../role/index.ts';
import { bytes, hex, version } from './fields.ts';

/** The cluster. Written once, by its first node. */
export const clusterShape = z.strictObject({
  version,
  clusterId: z.string().min(1),
  clusterName: z.string().min(1),
  /** Incremented when etcd is restored from a snapshot. Watch tokens of older epochs are then invalid. */
  epoch: z.int().positive(),
  /** The cluster CA. */
  caPem: z.string(),
  createdMs: z.int(),
  /** The first node, which created the cluster. */
  firstNodeId: z.string(),
});

/**
 * The epoch of the Kubernetes etcd, stored in that etcd itself. Two etcds with different epochs are two clusters with a
 * common history.
 */
export const etcdEpochShape = z.strictObject({ version, epoch: z.int().positive() });

/** The Kubernetes settings of all nodes, with the bundle manifest. */
export const settingsShape = z.strictObject({
  version,
  clusterName: z.string().min(1),
  kubernetesVersion: z.string().min(1),
  podSubnet: z.string().min(1),
  serviceSubnet: z.string().min(1),
  apiServerSans: z.array(z.string()),
  /** The exact text of the manifest. Components are checked against its hash. */
  bundleManifest: z.string(),
  /** "host:port" of the operator's own balancer of the API servers. */
  apiEndpoint: z.string().min(1).optional(),
  /** Lifetimes of certificates in minutes, as set at the init. */
  certificates: z
    .strictObject({
      nodeMinutes: z.int().positive(),
      kubeletMinutes: z.int().positive(),
      controlPlaneMinutes: z.int().positive(),
    })
    .optional(),
  /** Rights of pods on their nodes. Absent in older clusters, which enforce nothing. */
  podSecurity: z
    .strictObject({
      enforce: z.enum(['privileged', 'baseline', 'restricted']),
      exemptNamespaces: z.array(z.string()),
      allowCloudMetadata: z.boolean(),
    })
    .optional(),
  /** Where the cluster is stricter than Kubernetes by default. Absent in older clusters. */
  hardening: z
    .strictObject({
      seccompDefault: z.boolean(),
      podPidsLimit: z.int(),
      anonymousRequests: z.enum(['health', 'all']),
      eventRateLimit: z.boolean(),
      serviceExternalIps: z.boolean(),
      extendedTokens: z.boolean(),
      strongCiphers: z.boolean(),
    })
    .optional(),
  /** Further arguments of the components of Kubernetes, if there are any. */
  extraArguments: extraArgumentsSchema.optional(),
  /** How the network chart carries packets of pods between nodes. Absent: VXLAN. */
  networkBackend: z.enum(['wireguard']).optional(),
});

/** Cluster ownership: the owner's signature over `ownershipStatement` (internal/crypto). */
export const ownershipShape = z.strictObject({
  version,
  epoch: z.int().positive(),
  /** Raw Ed25519. */
  ownerPubKey: bytes,
  signature: bytes,
  timeMs: z.int(),
});

/** The exact bytes of a document that an owner has signed (internal/ownerdocument). */
export const documentShape = z.strictObject({
  version,
  document: bytes,
  recordedMs: z.int(),
  recordedBy: z.string(),
});

/** The form of an operator's name. */
export const OPERATOR_NAME = /^[a-z0-9]([a-z0-9._@-]{0,62}[a-z0-9])?$/;

/** The key of an operator. */
export const operatorShape = z.strictObject({
  version,
  name: z.string(),
  fingerprint: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  role: z.enum(OPERATOR_ROLES),
  createdMs: z.int(),
});

/** The exact bytes of the configuration of the cluster. */
export const configurationShape = z.strictObject({
  version,
  document: bytes,
  updatedMs: z.int(),
  updatedBy: z.string(),
});

/** The exact bytes of the collateral of AMD and Intel that an operator has uploaded. */
export const collateralShape = z.strictObject({
  version,
  bundle: bytes,
  /** The highest TCB evaluation number of Intel that was ever used in this cluster; never decreases. */
  evaluationNumber: z.int().min(0),
  updatedMs: z.int(),
  updatedBy: z.string(),
});

/** The result of the init, for its owner: a serialized `cluster.init.v1.InitResult`. */
export const initResultShape = z.strictObject({ version, initId: z.string(), result: bytes });

/**
 * A mutation that was done. The revision at which this record was written is the revision of the mutation.
 */
export const mutationShape = z.strictObject({ version, requestSha256: z.string() });

/**
 * One decision: the caller and the change. The chain is computed over the exact bytes of each entry
 * (internal/audit).
 */
export const auditShape = z.strictObject({
  version: z.literal(2),
  /** In the log of requests only, so that no entry of one log can pass as an entry of the other. */
  log: z.literal('requests').optional(),
  /** Starts at 1, without gaps. */
  seq: z.int().positive(),
  /** Hash of the previous entry; 64 zeros for the first entry. */
  previous: hex,
  timeMs: z.int(),
  caller: z.string(),
  method: z.string(),
  subject: z.string(),
  detail: z.record(z.string(), z.unknown()),
});

/** The end of the audit chain. Each append replaces it in the same transaction. */
export const auditHeadShape = z.strictObject({
  version,
  seq: z.int().nonnegative(),
  hash: hex,
  /** The oldest entry that is kept. */
  firstSeq: z.int().positive(),
});

/** PEM, except for the encryption key. */
const publicsShape = z.strictObject({
  'etcd-clients-ca': z.string().min(1),
  'etcd-peers-ca': z.string().min(1),
  'state-clients-ca': z.string().min(1),
  'state-peers-ca': z.string().min(1),
  'kubernetes-clients-ca': z.string().min(1),
  'front-proxy-ca': z.string().min(1),
  'service-account': z.string().min(1),
  /** Absent in rotations that an earlier version began. */
  'kubernetes-ca': z.string().min(1).optional(),
  'cluster-ca': z.string().min(1).optional(),
  /** Name and hash; absent in rotations that an earlier version began. */
  'encryption-key': z.string().min(1).optional(),
});

/**
 * The progress of a rotation of the keys that control planes share (internal/keyset). Public keys only:
 * control planes receive the private keys in tickets.
 */
export const keysShape = z.strictObject({
  version,
  generation: z.int().min(2),
  /** `asked`: the new keys do not exist yet, or wait for an owner's signature. */
  phase: z.union([z.literal('asked'), storedPhase]),
  startedMs: z.int(),
  phaseSinceMs: z.int(),
  /** The caller as the audit log names it, e.g. "operator:NAME". */
  startedBy: z.string(),
  reason: z.string(),
  /** Absent until the new keys exist. */
  made: z
    .strictObject({
      by: z.string(),
      previous: publicsShape,
      next: publicsShape,
      /**
       * The node key of `by` (SubjectPublicKeyInfo, DER) and its signature over `newKeysStatement()`. Absent in records of
       * earlier versions.
       */
      pubKey: bytes.optional(),
      signature: bytes.optional(),
    })
    .optional(),
});

/** See `keysShape`. */
export type KeysRecord = z.infer<typeof keysShape>;
/** See `settingsShape`. */
export type SettingsRecord = z.infer<typeof settingsShape>;
/** See `ownershipShape`. */
export type OwnershipRecord = z.infer<typeof ownershipShape>;
/** See `auditHeadShape`. */
export type AuditHeadRecord = z.infer<typeof auditHeadShape>;
/** See `clusterShape`. */
export type ClusterRecord = z.infer<typeof clusterShape>;
/** See `operatorShape`. */
export type OperatorRecord = z.infer<typeof operatorShape>;
/** See `collateralShape`. */
export type CollateralRecord = z.infer<typeof collateralShape>;
/** See `auditShape`. */
export type AuditRecord = z.infer<typeof auditShape>;
