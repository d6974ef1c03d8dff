import { z } from 'zod';
import { describeShape } from '../errors/index.ts';
import { DoctorError } from './errors.ts';
import {
  certificates,
  count,
  fileSystem,
  name,
  number,
  part,
  text,
  timeMs,
  unmetRequirement,
} from './fact-shapes.ts';
import { localFacts } from './local-facts.ts';

/** The largest file of facts: 1,000 nodes with their certificates and pods need less. */
export const MAX_FACTS_BYTES = 16 * 1024 * 1024;
const FACTS_VERSION = 1;

/*
 * Members that this version does not know are left out, at every level: a newer version may add facts, and an older one judges what it knows.
 * A change that an older version would judge wrongly needs a new FACTS_VERSION.
 */

const etcd = z.object({
  dbSizeBytes: number,
  quotaBytes: number,
  hasLeader: z.boolean(),
  isFull: z.boolean(),
  /** Absent in files of earlier versions. */
  isCorrupt: z.boolean().optional(),
  members: z.array(z.object({ name, isLearner: z.boolean() })).max(64),
});

/** The last comparison of the members of an etcd that one control plane has made. Members are named by the IDs of their nodes. */
const etcdContent = z.object({
  /** Since when the control plane is ready to compare. */
  sinceMs: timeMs,
  /** Absent before the first comparison. */
  comparedMs: timeMs.optional(),
  /** More than half of all voting members, or none. */
  agreeing: z.array(name).max(32),
  differing: z.array(name).max(32),
  notCompared: z.array(name).max(32),
});

const node = z.object({
  id: name,
  name,
  /** "198.18.0.2"; empty while it is not known. */
  address: name,
  state: name,
  health: name,
  isControlPlane: z.boolean(),
  createdMs: timeMs,
  agentVersion: name,
  kubernetesVersion: name,
  lastError: text.optional(),
  /** When the node found that its disk is an old copy (bootstrapper/rollback). */
  oldDiskMs: timeMs.optional(),
  certificates,
  componentsNotReady: z.array(z.object({ name, why: text })).max(16),
  deadRunnables: z.array(text).max(256),
  /** What the agent finds wrong on its own machine. Older agents do not report it. */
  machine: z
    .object({
      /** Services of systemd that are not well. */
      services: z.array(z.object({ name, why: text })).max(16),
      /** Settings that are not as a node needs them: failed checks of `cluster preflight`. */
      problems: z.array(unmetRequirement).max(64),
      /** Undefined on a node without the network chart. */
      podNetwork: z
        .object({
          address: name,
          unreachable: z.array(name).max(16),
          /** Whether full-size packets arrive at other nodes. Older agents do not report it. */
          fullPackets: z.object({ lost: z.array(name).max(16), judged: count }).optional(),
          /** The usual round trips to other nodes; `ROUND_TRIP_FLOOR_MS`: at most this. Older agents do not report them. */
          roundTrips: z
            .array(z.object({ address: name, ms: count }))
            .max(16)
            .optional(),
        })
        .optional(),
      /** Why the DNS of the cluster does not answer; empty if it does. Undefined from older agents, and without the network chart. */
      nameLookup: z.object({ failure: text }).optional(),
    })
    .optional(),
  /** Whether the members of each etcd agree. Only on control planes; older agents do not report it. */
  etcdContents: z.object({ state: etcdContent.optional(), kubernetes: etcdContent.optional() }).optional(),
  /**
   * How each directory with secrets and data is protected (encrypted, in memory, in the clear). Older agents do not
   * report it.
   */
  directories: z
    .array(z.object({ path: name, protection: name }))
    .max(16)
    .optional(),
});

const records = z.object({
  stateEtcd: etcd,
  /** The Kubernetes etcd as a control plane reports it; undefined if no control plane reports it. */
  kubernetesEtcd: etcd.optional(),
  nodes: z.array(node).max(1_000),
  /** The shortest configured lifetime of a certificate; undefined: the configuration is not readable. */
  shortestLifetimeMs: count.optional(),
});

/**
 * Figures of one etcd member. `fsync` covers a few seconds and is undefined if too little was written in that time: `within` of `total`
 * fsyncs took up to `ms`, which is the 99th percentile, or leaves out the two slowest if there are few. `peers` has the
 * median round trip to each peer, and `peerRoundTripMs` that to the slowest. They cover the whole time since the process started,
 * because etcd measures its peers only every few seconds.
 */
const etcdMember = z.object({
  hasLeader: z.boolean(),
  fsync: z.object({ ms: number, within: count, total: count }).optional(),
  /** The ID of the member in hexadecimal; absent in files of earlier versions, as `peers` is. */
  id: name.optional(),
  peers: z
    .array(z.object({ id: name, roundTripMs: number }))
    .max(64)
    .optional(),
  peerRoundTripMs: number.optional(),
  dbSizeBytes: number.optional(),
  dbInUseBytes: number.optional(),
  /** When the process of the member started, by the clock of its node. */
  startedMs: timeMs.optional(),
});

/**
 * The growth of a file system or a database on one node (internal/growth). `bytesPerDay` is 0 if it does not grow clearly, and undefined while
 * there are too few measurements.
 */
const growth = z.object({
  kind: z.enum(['filesystem', 'etcd']),
  /** The path of a directory; "state" or "kubernetes". */
  name,
  measuredMs: count,
  bytesPerDay: number.optional(),
});

const nodeMetrics = z.object({
  /** undefined if the member does not respond on its node. */
  stateEtcd: etcdMember.optional(),
  kubernetesEtcd: etcdMember.optional(),
  /** The API servers as the balancer of the node sees them. */
  balancer: z.array(z.object({ server: name, verdict: name })).max(64),
  /** Absent from older agents. */
  growth: z.array(growth).max(16).optional(),
});

const kubernetes = z.object({
  nodes: z
    .array(
      z.object({
        name,
        isReady: z.boolean(),
        why: text,
        /** Conditions such as DiskPressure that are true. */
        pressures: z.array(name).max(16),
        kubeletVersion: name,
      }),
    )
    .max(1_000),
  pods: z
    .array(
      z.object({
        namespace: name,
        name,
        app: name,
        node: name,
        createdMs: timeMs,
        isReady: z.boolean(),
        why: text,
        /** True if waiting does not help: Kubernetes reports a failure of the pod. Absent in files of earlier versions. */
        isFailing: z.boolean().optional(),
        /**
         * When the oldest running container of the pod started. Set only for a pod that mounts the CA of API servers.
         */
        serversCaReadMs: timeMs.optional(),
      }),
    )
    .max(200_000),
  /**
   * When the CA of API servers, which pods of each namespace mount, last changed. Absent in files of earlier versions.
   */
  serversCas: z
    .array(z.object({ namespace: name, changedMs: timeMs }))
    .max(50_000)
    .optional(),
  budgets: z
    .array(z.object({ namespace: name, name, expectedPods: count, healthyPods: count, allowed: count }))
    .max(50_000),
  /** The newest revision of each helm release; undefined for an operator who may not read Secrets. */
  releases: z
    .array(
      z.object({
        ...{ namespace: name, name, revision: count, status: name },
        /** The revision that `cluster init` installed last. Undefined for releases of other programs. */
        installedRevision: count.optional(),
        /** Whether `cluster init` installed what cluster.yaml has now. Undefined if that is not known. */
        isAsConfigured: z.boolean().optional(),
      }),
    )
    .max(10_000)
    .optional(),
  /**
   * What Kubernetes reports as failing. Absent in files of earlier versions; a list is absent if the operator may not
   * read its objects.
   */
  failures: z
    .object({
      webhooks: z
        .array(z.object({ name, isRequired: z.boolean(), service: name, readyEndpoints: count }))
        .max(10_000)
        .optional(),
      apis: z
        .array(z.object({ name, why: text }))
        .max(10_000)
        .optional(),
      /** Namespaces whose deletion was requested. */
      namespaces: z
        .array(z.object({ name, sinceMs: timeMs, why: text, waitsForFinalizers: z.boolean() }))
        .max(50_000)
        .optional(),
      deployments: z
        .array(z.object({ namespace: name, name, wanted: count, created: count, why: text }))
        .max(50_000)
        .optional(),
    })
    .optional(),
});

/** What this workstation found when it verified fresh evidence of a node, as `cluster verify NODE` does. */
const evidence = z.object({
  /** The kind of evidence that the node sent: "tpm", "machine-key". */
  variant: name,
  /** Of the policy; "identity": software is not attested. */
  profile: name,
  isAccepted: z.boolean(),
  /** Why the evidence was refused. */
  refusal: z
    .object({
      code: name,
      reason: text,
      /** Registers whose value is none of the reference values. */
      differing: z.array(name).max(32),
      /** The register that shows to which cluster the machine is bound. */
      lockRegister: name,
    })
    .optional(),
});

const backupFailure = z.object({ node: name, timeMs, code: name, message: text });

const backups = z.object({
  /** undefined if the cluster has no schedule. */
  schedule: z
    .object({
      everyMs: number,
      issuedMs: timeMs,
      endsMs: timeMs,
      /** IDs of the control planes that take backups. */
      nodeIds: z.array(name).max(64),
    })
    .optional(),
  newestTakenMs: timeMs.optional(),
  /** When the newest proved backup was taken. A backup is proved when its content was restored and checked. */
  newestProvedMs: timeMs.optional(),
  /** Control planes that proved their newest backup on an unencrypted disk, and the space of the proof. */
  clearProofs: z
    .array(z.object({ node: name, sizeBytes: number }))
    .max(64)
    .optional(),
  /** Why the last attempt failed; undefined if it succeeded. */
  failure: backupFailure.optional(),
  /** Copies in the directory that the schedule names; undefined if the schedule names no directory. */
  copies: z
    .array(z.object({ node: name, count, failure: backupFailure.optional() }))
    .max(64)
    .optional(),
});

const factsShape = z.object({
  version: z.literal(FACTS_VERSION),
  takenMs: timeMs,
  cliVersion: name,
  clusterId: name,
  clusterName: name,
  /** The credentials of the workstation; undefined in facts that were collected on a machine. */
  credentials: z.object({ certificateMs: timeMs, kubeconfigMs: timeMs.optional() }).optional(),
  /** How far the clock of each API server is ahead of this workstation. */
  clocks: z.array(z.object({ node: name, offset: part(z.object({ ms: z.int() })) })).max(64),
  records: part(records),
  curators: z
    .array(
      z.object({
        node: name,
        answer: part(
          z.object({
            /**
             * How far the clocks of the nodes whose heartbeats it receives are ahead of its own clock. Absent in files of earlier
             * versions.
             */
            clocks: z
              .array(z.object({ nodeId: name, ms: z.int() }))
              .max(10_000)
              .optional(),
          }),
        ),
      }),
    )
    .max(64),
  /** Absent in files of earlier versions. */
  joinServices: z
    .array(z.object({ node: name, answer: part(z.object({})) }))
    .max(64)
    .optional(),
  apiServers: z.array(z.object({ node: name, answer: part(z.object({ version: name })) })).max(64),
  /** The server that the kubeconfig of the workspace names. Absent in files of earlier versions, and without a kubeconfig. */
  kubeconfig: z.object({ server: name, answer: part(z.object({})) }).optional(),
  /** The host names that this workspace uses, as the workstation resolves them. Absent in files of earlier versions. */
  hostNames: z
    .array(z.object({ name, answer: part(z.object({ addresses: z.array(name).max(64) })) }))
    .max(64)
    .optional(),
  metrics: z.array(z.object({ node: name, answer: part(nodeMetrics) })).max(1_000),
  kubelets: z
    .array(
      z.object({
        node: name,
        answer: part(z.object({ fileSystems: z.array(fileSystem).max(16) })),
      }),
    )
    .max(1_000),
  /** Absent in files of earlier versions. */
  evidence: z
    .array(z.object({ node: name, answer: part(evidence) }))
    .max(1_000)
    .optional(),
  kubernetes: part(kubernetes),
  keys: part(
    z.object({
      generation: count,
      phase: name,
      isDone: z.boolean(),
      phaseSinceMs: timeMs,
      awaited: z.array(text).max(1_000),
      /** True if no owner has signed the keys yet. Absent in files of earlier versions. */
      needsOwner: z.boolean().optional(),
    }),
  ),
  joins: part(
    z.array(z.object({ name, state: name, code: name, message: text, lastSeenMs: timeMs })).max(10_000),
  ),
  /** `issuedMs` is absent in facts from older versions. */
  documents: part(z.array(z.object({ kind: name, endsMs: timeMs, issuedMs: timeMs.optional() })).max(10_000)),
  collateral: part(z.array(z.object({ what: name, expiresMs: timeMs })).max(10_000)),
  /** Scheduled backups; undefined in facts that an older release saved. */
  backups: part(backups).optional(),
  /** The charts that were installed from this workspace; undefined for an operator, who installs no charts. */
  charts: z.array(name).max(1_000).optional(),
  /** What a machine tells about itself. Only in facts that were collected on the machine, without the cluster. */
  local: localFacts.optional(),
});

/** Everything that the checks of a cluster need: plain JSON, so that it can be saved and judged elsewhere. */
export type ClusterFacts = z.output<typeof factsShape>;
/** See `part()`. */
export type FactsPart<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: string; readonly codes: readonly string[] };
/** What the curators know. */
export type RecordFacts = z.output<typeof records>;
/** A node in the records. */
export type NodeFacts = z.output<typeof node>;
/** What an agent finds wrong on its own machine. */
export type MachineFacts = NonNullable<NodeFacts['machine']>;
/** What one curator or control plane knows about an etcd cluster. */
export type EtcdFacts = z.output<typeof etcd>;
/** A comparison of the members of an etcd. */
export type EtcdContentFacts = z.output<typeof etcdContent>;
/** The figures of one etcd member. */
export type EtcdMemberFacts = z.output<typeof etcdMember>;
/** What the metrics of a node tell. */
export type NodeMetricsFacts = z.output<typeof nodeMetrics>;
/** The verdict about the evidence of a node. */
export type EvidenceFacts = z.output<typeof evidence>;
/** How fast a file system or a database of a node fills. */
export type GrowthFacts = z.output<typeof growth>;
/** What the Kubernetes API knows. */
export type KubernetesFacts = z.output<typeof kubernetes>;
/** Scheduled backups. */
export type BackupFacts = z.output<typeof backups>;
/** A file system as the kubelet or the machine itself reports it. */
export type FileSystemFacts = z.output<typeof fileSystem>;
/** What a machine tells about itself. */
export type LocalFacts = z.output<typeof localFacts>;

/**
 * Parses saved facts. `bytes` may come from an untrusted person: the facts are only judged and printed.
 * @throws DoctorError `doctor-facts-too-large`, `doctor-facts-version`, `doctor-facts-malformed`
 */
export function parseFacts(bytes: Uint8Array): ClusterFacts {
  if (bytes.length > MAX_FACTS_BYTES)
    throw new DoctorError(
      'doctor-facts-too-large',
      `reading facts: ${bytes.length} bytes, at most ${MAX_FACTS_BYTES} allowed`,
    );
  const json = jsonFrom(bytes);
  const { data: head } = z.looseObject({ version: z.int() }).safeParse(json);
  if (head !== undefined && head.version !== FACTS_VERSION)
    throw new DoctorError(
      'doctor-facts-version',
      `reading facts: version ${head.version}, this program reads version ${FACTS_VERSION}`,
    );
  const parsed = factsShape.safeParse(json);
  if (!parsed.success)
    throw new DoctorError('doctor-facts-malformed', `reading facts: ${describeShape(parsed.error)}`);
  return parsed.data;
}

/** Encodes facts for a file. Checks them too, so that no file is written that `parseFacts()` would refuse. */
export function encodeFacts(facts: ClusterFacts): Uint8Array {
  const bytes = new TextEncoder().encode(`${JSON.stringify(facts, null, 1)}\n`);
  parseFacts(bytes);
  return bytes;
}

function jsonFrom(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new DoctorError('doctor-facts-malformed', 'reading facts: not JSON', { cause });
  }
}
