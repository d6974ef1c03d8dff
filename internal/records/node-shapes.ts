import { z } from 'zod';
import { NODE_STATES, ROLES, TAINT_EFFECTS } from '../role/index.ts';
import { bytes, hex, version } from './fields.ts';

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
  /**
   * Whether the node has ever been a control plane, which holds keys that outlast its roles. Absent in records of
   * older releases: not known.
   */
  wasControlPlane: z.boolean().optional(),
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

/** The checks that the machine and the cluster made in a join: the latest result for each of the two and each check. */
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

/**
 * What became of the keys that control planes share on a removed node: it had none (`none`), its machine reported that
 * it had deleted them (`deleted`), or had not done so in its last report (`left`).
 */
export const SHARED_KEYS_LEFT = ['none', 'deleted', 'left'] as const;

/** A removed machine. It is refused under every policy until an owner has signed its readmission. Never deleted. */
export const removedShape = z.strictObject({
  version,
  identity: z.string().min(1),
  /** The number of removals; a readmission covers one removal and all removals before it. */
  removal: z.int().positive(),
  /** The last node ID of the machine. */
  nodeId: z.string(),
  name: z.string(),
  removedMs: z.int(),
  removedBy: z.string(),
  /** Absent if it is not known, as in records of older releases. */
  sharedKeys: z.enum(SHARED_KEYS_LEFT).optional(),
  /** Generation of the shared keys that the node last reported; absent if it had none or reported none. */
  keyGeneration: z.int().positive().optional(),
});

/**
 * A worker that a restore kept, which may report once the removals that it knows and the backup does not: `kept/workers/ID`. Exists as
 * long as the record of the node.
 */
export const keptWorkerShape = z.strictObject({
  version,
  /** How many removals its report has added. */
  merged: z.int().min(0),
  /** Whether its report was accepted. */
  isDone: z.boolean(),
});

/** How many removals the reports of all kept workers have added. */
export const mergedRemovalsShape = z.strictObject({ version, merged: z.int().min(0) });

/** The last status report of a node: a serialized `cluster.curator.v1.NodeStatus`. */
export const statusShape = z.strictObject({ version, status: bytes, updatedMs: z.int() });

/** The heartbeat of a node. Its key is on a lease and expires with it. */
export const heartbeatShape = z.strictObject({ version, sinceMs: z.int() });

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
/** See `nodeShape`. */
export type NodeRecord = z.infer<typeof nodeShape>;
/** See `statusShape`. */
export type StatusRecord = z.infer<typeof statusShape>;
/** One check of a trace. */
export type TraceFactRecord = TraceRecord['facts'][number];
