import { z } from 'zod';
import { KEY_PHASES } from '../keyset/index.ts';
import { NODE_STATES, ROLES, TAINT_EFFECTS } from '../role/index.ts';

const version = z.literal(1);
const bytes = z.base64();
const hex = z.string().regex(/^[0-9a-f]{64}$/);
/** File name of a backup that a control plane keeps: its number and its time. */
export const BACKUP_NAME = /^[0-9]{8}-[0-9]{8}T[0-9]{9}Z\.backup$/;
const fingerprint = z.string().regex(/^sha256:[0-9a-f]{64}$/);

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

/** The epoch of the Kubernetes etcd, in that etcd itself: two epochs are two clusters with a common history. */
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

/** What evidence proves: `measured` identity and software, `identity` only the identity. */
export const EVIDENCE_PROFILES = ['measured', 'identity'] as const;
/** See `EVIDENCE_PROFILES`. */
export type EvidenceProfile = (typeof EVIDENCE_PROFILES)[number];

/** What the evidence of a machine has proved, without the evidence itself. */
const machineShape = z.strictObject({
  /** Identity of a machine, in the form in which policies list it, e.g. "tpm-ek:90ab…". */
  identity: z.string().min(1),
  /** `endorsed` by the manufacturer, `pinned` by an operator (inventory or approval), or not proved yet. */
  proof: z.enum(['endorsed', 'pinned', 'unproved']),
  variant: z.string().min(1),
  profile: z.enum(EVIDENCE_PROFILES),
  /** Name (hex) of the attestation key of this identity; absent without a TPM. */
  akName: z.string().optional(),
  /**
   * How often the machine was locked to a cluster, in decimal: the counter that its TPM certified when the
   * membership was committed. Absent if the TPM has no lock counter.
   */
  lockCounter: z
    .string()
    .regex(/^\d{1,20}$/)
    .optional(),
  /** SHA-256 (hex) of the result of the verification. */
  evidenceDigest: hex,
  /** Version of the attestation policy that was applied. */
  policyVersion: z.string(),
});

/** A taint that a node has in Kubernetes. */
const taintShape = z.strictObject({ key: z.string(), value: z.string(), effect: z.enum(TAINT_EFFECTS) });

/** What the cluster has decided about a node. The node reports its own status in another record. */
export const nodeShape = z.strictObject({
  version,
  nodeId: z.string(),
  name: z.string(),
  /** SubjectPublicKeyInfo, DER. A record with this key makes the node a member. */
  pubKey: bytes,
  state: z.enum(NODE_STATES),
  roles: z.array(z.enum(ROLES)),
  labels: z.record(z.string(), z.string()),
  /** Absent without taints, as in records of older releases. */
  taints: z.array(taintShape).optional(),
  createdMs: z.int(),
  /** How the node was admitted. Absent for the first node of an older cluster. */
  admission: machineShape.extend({ decidedBy: z.string(), timeMs: z.int() }).optional(),
});

/** One membership per machine: `identities/IDENTITY`. Exists as long as the record of the node. */
export const identityShape = z.strictObject({
  version,
  nodeId: z.string(),
  /** Name (hex) of the machine's attestation key, which identifies later evidence of this machine. */
  akName: z.string().optional(),
  /**
   * The latest clock observation of the machine's TPM. A copy of a software TPM cannot have the same clock.
   */
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

/**
 * The reservation of a control plane's address, under the key `control-plane-addresses/ADDRESS`. It lasts
 * while the node is on record as a control plane, even if the node is off: no other node gets a certificate
 * for the address.
 */
export const addressShape = z.strictObject({ version, nodeId: z.string() });

/** The states of a request to join. */
export const JOIN_STATES = ['pending', 'approved', 'refused', 'joined'] as const;
/** See `JOIN_STATES`. */
export type JoinRecordState = (typeof JOIN_STATES)[number];

/** The request of a machine to join, and its state. One record per key, however often the machine requests. */
export const joinShape = z.strictObject({
  version,
  nodeId: z.string(),
  pubKey: bytes,
  state: z.enum(JOIN_STATES),
  machine: machineShape,
  /** Unproved claims of the machine. */
  claimed: z.strictObject({
    hostname: z.string(),
    address: z.string(),
    name: z.string(),
    roles: z.array(z.string()),
    agentVersion: z.string(),
    /** The clock of the machine minus the clock of the server. */
    clockOffsetMs: z.int(),
  }),
  decision: z
    .strictObject({
      name: z.string(),
      roles: z.array(z.enum(ROLES)),
      labels: z.record(z.string(), z.string()),
      taints: z.array(taintShape).optional(),
      /** "operator:NAME" or "policy:VERSION". */
      by: z.string(),
      timeMs: z.int(),
      /** The time at which an approval expires: the join must be completed before. */
      expiresMs: z.int(),
    })
    .optional(),
  /** Why the machine waits or was refused: a code, and a sentence for operators. */
  code: z.string(),
  message: z.string(),
  firstSeenMs: z.int(),
  lastSeenMs: z.int(),
  attempts: z.int().positive(),
});

/** The outcomes of one check of a join. */
export const TRACE_OUTCOMES = ['pass', 'warn', 'fail', 'wait'] as const;

/** The checks that both sides made in a join: the latest result for each side and name of a check. */
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

/** A removed machine. It is refused under every policy until an owner has signed its readmission. Never deleted. */
export const removedShape = z.strictObject({
  version,
  identity: z.string().min(1),
  /** The number of removals; a readmission covers one removal and those before. */
  removal: z.int().positive(),
  /** The last node ID of the machine. */
  nodeId: z.string(),
  name: z.string(),
  removedMs: z.int(),
  removedBy: z.string(),
});

/** The exact bytes of a document that an owner has signed (internal/ownerdocument). */
export const documentShape = z.strictObject({
  version,
  document: bytes,
  recordedMs: z.int(),
  recordedBy: z.string(),
});

/** The schedule of backups: bytes that an owner has signed (internal/backup), and the sealed part `workspace` of each backup. */
export const backupScheduleShape = z.strictObject({
  version,
  certificate: bytes,
  workspace: bytes,
  updatedMs: z.int(),
  updatedBy: z.string(),
});

const backupFailure = { timeMs: z.int(), code: z.string().max(128), message: z.string().max(2_000) };

/** The number of the last scheduled backup, and why the last attempt failed; without a failure, it succeeded. */
export const backupHeadShape = z.strictObject({
  version,
  seq: z.int().min(0),
  failure: z.strictObject({ nodeId: z.string(), ...backupFailure }).optional(),
});

/** Copies of the backups of one node in the directory that the schedule names. Without a failure, all of its proved backups are there. */
export const backupCopiesShape = z.strictObject({
  version,
  nodeId: z.string(),
  directory: z.string().max(256),
  names: z.array(z.string().regex(BACKUP_NAME)).max(1_000),
  failure: z.strictObject(backupFailure).optional(),
});

/** The node that takes a backup now. Exists on a lease. */
export const backupClaimShape = z.strictObject({ version, nodeId: z.string(), seq: z.int().positive() });

/** A backup that a control plane keeps on its disk. */
export const backupShape = z.strictObject({
  version,
  /** Grows with each backup of the cluster, whatever clocks say. */
  seq: z.int().positive(),
  nodeId: z.string(),
  name: z.string().regex(BACKUP_NAME),
  takenMs: z.int(),
  /** When its content was restored and compared; absent if it was not. */
  provedMs: z.int().optional(),
  epoch: z.int().positive(),
  /** Of the whole file. */
  sha256: hex,
  sizeBytes: z.int().positive(),
});

/** The form of an operator's name. */
export const OPERATOR_NAME = /^[a-z0-9]([a-z0-9._@-]{0,62}[a-z0-9])?$/;

/** The roles of operators, with increasing rights. */
export const OPERATOR_ROLES = ['viewer', 'operator', 'owner'] as const;
/** See `OPERATOR_ROLES`. */
export type OperatorRole = (typeof OPERATOR_ROLES)[number];

/**
 * The group of a person with this role in the certificate for the Kubernetes API. kubeadm binds the group of owners to cluster-admin
 * (phase upload-config); the control planes bind the others (bootstrapper/kubernetes/controlplane).
 */
export const KUBERNETES_GROUPS: Readonly<Record<OperatorRole, string>> = {
  viewer: 'cluster:viewers',
  operator: 'cluster:operators',
  owner: 'kubeadm:cluster-admins',
};

/** The key of an operator. */
export const operatorShape = z.strictObject({
  version,
  name: z.string(),
  fingerprint,
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

/** The last status report of a node: a serialized `cluster.curator.v1.NodeStatus`. */
export const statusShape = z.strictObject({ version, status: bytes, updatedMs: z.int() });

/** The heartbeat of a node. Its key is on a lease and expires with it. */
export const heartbeatShape = z.strictObject({ version, sinceMs: z.int() });

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
  phase: z.enum(['asked', ...KEY_PHASES]),
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

/** See `backupShape`. */
export type BackupRecord = z.infer<typeof backupShape>;
/** See `backupCopiesShape`. */
export type BackupCopiesRecord = z.infer<typeof backupCopiesShape>;
/** See `backupHeadShape`. */
export type BackupHeadRecord = z.infer<typeof backupHeadShape>;
/** See `keysShape`. */
export type KeysRecord = z.infer<typeof keysShape>;
/** See `settingsShape`. */
export type SettingsRecord = z.infer<typeof settingsShape>;
/** See `ownershipShape`. */
export type OwnershipRecord = z.infer<typeof ownershipShape>;
/** See `machineShape`. */
export type MachineRecord = z.infer<typeof machineShape>;
/** See `removedShape`. */
export type RemovedRecord = z.infer<typeof removedShape>;
/** See `identityShape`. */
export type IdentityRecord = z.infer<typeof identityShape>;
/** See `joinShape`. */
export type JoinRecord = z.infer<typeof joinShape>;
/** See `traceShape`. */
export type TraceRecord = z.infer<typeof traceShape>;
/** One check of a trace. */
export type TraceFactRecord = TraceRecord['facts'][number];
/** See `auditHeadShape`. */
export type AuditHeadRecord = z.infer<typeof auditHeadShape>;
/** See `clusterShape`. */
export type ClusterRecord = z.infer<typeof clusterShape>;
/** See `nodeShape`. */
export type NodeRecord = z.infer<typeof nodeShape>;
/** See `operatorShape`. */
export type OperatorRecord = z.infer<typeof operatorShape>;
/** See `collateralShape`. */
export type CollateralRecord = z.infer<typeof collateralShape>;
/** See `statusShape`. */
export type StatusRecord = z.infer<typeof statusShape>;
/** See `auditShape`. */
export type AuditRecord = z.infer<typeof auditShape>;
