import { toBinary } from '@bufbuild/protobuf';
import { randomInt } from 'node:crypto';
import { EMPTY_CHAIN, extendChain } from '../../../internal/audit/index.ts';
import { CodedError, defineErrors, fault, retryable } from '../../../internal/errors/index.ts';
import { fingerprintOfKey, generateKeyPem, nodeIdOf, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { reportedError } from '../../../internal/rpc/index.ts';
import type { MemoryFiles } from '../../../internal/testing/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { RemovedKeys } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import {
  PowerAction,
  ProbeResult_Outcome as Outcome,
  DiskSealSchema,
  type DiskSeal,
} from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { RecordingHost } from '../../host/fake-host.ts';
import { Interruption } from '../../host/index.ts';
import { layoutOf } from '../../workspace/index.ts';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { FastForwardClock } from '../../cluster/curator/fake-fast-forward-clock.ts';
import {
  CONTROL_PLANE_TAINT,
  createKubernetes,
  type FakeRequest,
} from '../../cluster/curator/fake-kubernetes.ts';
import { reportedComponents } from '../roles/fake-components.ts';
import { readCaller } from '../../cluster/index.ts';
import { SHARED_KEYS } from '../../keys/index.ts';

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const WORK = [NodeRole.KUBERNETES_WORKER];

const refusals = defineErrors({
  'curator-node-unknown': fault.operator.precondition('-', '-'),
  'operatorapi-operator-unknown': fault.operator.precondition('-', '-'),
  'etcd-unavailable': retryable.peer.unreachable('-', '-'),
  'streams-node-gone': retryable.peer.unreachable('-', '-'),
  'streams-node-refused': fault.peer.precondition('-', '-'),
});

const keys = new Map<string, Uint8Array>();

/** The node key of a machine: created at the first call for its name. */
function keyOf(name: string): Uint8Array {
  const key = keys.get(name) ?? pubKeyDerOf(generateKeyPem());
  keys.set(name, key);
  return key;
}

export const idOf = (name: string): string => nodeIdOf(keyOf(name));

/** See `Taint` of the contract. */
interface TaintOnRecord {
  readonly key: string;
  readonly value: string;
  readonly effect: string;
}

/**
 * The state of a cluster of three control planes and a worker. A machine that received a reset order is empty
 * and does not respond.
 */
function createState() {
  const node = (name: string, roles: readonly NodeRole[]) => ({
    nodeId: idOf(name),
    publicKey: keyOf(name),
    name,
    roles: [...roles],
    state: NodeState.UP,
    health: NodeHealth.HEALTHY,
    labels: {} as Record<string, string>,
    taints: [] as TaintOnRecord[],
    wasControlPlane: roles.includes(NodeRole.CONSENSUS_MEMBER),
    status: {
      controlPlane: roles.includes(NodeRole.CONSENSUS_MEMBER) ? reportedComponents() : [],
      holdsKeys: roles.includes(NodeRole.CONSENSUS_MEMBER),
      keys: { generation: 1n, phase: 'done' },
    },
  });
  return {
    nodes: [node('n1', CONTROL), node('n2', CONTROL), node('n3', [...CONTROL, ...WORK]), node('n4', WORK)],
    kubernetes: ['n1', 'n2', 'n3', 'n4'].map((name) => ({ name, cordonedBy: '', isCordoned: false })),
    pods: ['n3', 'n4'],
    podKinds: {} as Readonly<Record<string, 'alone' | 'with-data'>>,
    /** Tolerations of the pods, by node. */
    tolerations: {} as Readonly<Record<string, readonly object[]>>,
    /** Nodes whose kubelet has not reported the pod of its API server as ready. */
    unreported: [] as string[],
    removed: [] as { nodeId: string; name: string; sharedKeys: RemovedKeys; keyGeneration: bigint }[],
    operators: ['ann'],
    removedOperators: [] as string[],
    /** Scheduled backups, by the name of the control plane that keeps them. */
    backups: [] as { readonly seq: number; readonly node: string; readonly isProved: boolean }[],
    decisions: {} as Record<string, string>,
    generation: 1,
    machines: { n3: 'member', n4: 'member' } as Record<string, string>,
  };
}
type State = ReturnType<typeof createState>;

/** Counts all external effects of a program, and ends the program at one of them. */
class Points {
  reached = 0;
  at = Infinity;
  stopping = new AbortController();

  /**
   * Called before and after each effect. After a test has ended the program, `pass()` throws, so that no further effect
   * takes place.
   */
  pass(): void {
    this.stopping.signal.throwIfAborted();
    if (++this.reached < this.at) return;
    this.stopping.abort(new Interruption('interrupted'));
    this.stopping.signal.throwIfAborted();
  }

  start(at: number): AbortSignal {
    [this.reached, this.at, this.stopping] = [0, at, new AbortController()];
    return this.stopping.signal;
  }
}

/**
 * A fake cluster whose state changes with the calls that it gets. Each call that changes it, each step of the
 * program and each write to the workspace is a point at which a test can interrupt the program, before and
 * after the effect. Must be disposed.
 */
export async function createStatefulCluster() {
  const points = new Points();
  const cluster = {
    state: createState(),
    owner: '',
    boots: {} as Record<string, number>,
    reportedBoots: {} as Record<string, number>,
    losesAnswers: false,
    startsAgain: false,
    seals: {} as Cluster['seals'],
    /** If true, every third call after the first change fails, as if etcd had no leader. */
    failsEveryThird: false,
  };
  let calls = 0;
  const failSometimes = (): void => {
    if (cluster.failsEveryThird && ++calls % 3 === 0)
      throw new CodedError(refusals, 'etcd-unavailable', 'reading records');
  };
  const find = (name: string) => {
    const node = cluster.state.nodes.find((each) => each.nodeId === name || each.name === name);
    if (node !== undefined) return node;
    throw new CodedError(refusals, 'curator-node-unknown', `asking for ${name}`);
  };
  const look =
    <Q, A>(work: (request: Q) => A) =>
    async (request: Q): Promise<A> => {
      points.stopping.signal.throwIfAborted();
      if (calls > 0) failSometimes();
      return work(request);
    };
  const effect =
    <Q, A>(work: (request: Q) => A) =>
    async (request: Q): Promise<A> => {
      points.pass();
      failSometimes();
      const answer = work(request);
      points.pass();
      return answer;
    };
  const address = `127.${randomInt(1, 250)}.${randomInt(1, 250)}.${randomInt(2, 250)}`;
  const harness = await createCuratorHarness(
    curatorOf(cluster, { find, look, effect }),
    admissionOf(cluster, { look, effect }),
    streamsOf(cluster, { find, look, effect }),
    { address, removed: () => cluster.state.removed },
  );
  const { files } = harness;
  const { keyPem } = await readCaller(harness.owner);
  cluster.owner = fingerprintOfKey(pubKeyDerOf(keyPem));
  const kubernetes = await createKubernetes(
    files,
    layoutOf('/owner').kubeconfig,
    { metadata: { annotations: {} }, spec: {} },
    { address, port: 6443, answer: (request) => kubernetesAnswer(cluster.state, request, points) },
  );
  return {
    points,
    cluster,
    /** Restores the initial state of the cluster and of the workspace. */
    reset: async () => {
      cluster.state = createState();
      for (const name of ['leaving.json', 'applied.json', 'seen-documents.json'])
        await files.remove(`/owner/${name}`);
    },
    /** A context for a program that is ended at its effect number `at`; Infinity lets it run to its own end. */
    program: (at: number) => {
      const signal = points.start(at);
      const ports = {
        ...harness.owner.ports,
        files: interruptible(files, points),
        clock: new FastForwardClock(1),
      };
      return { ...harness.owner, ports, host: new SteppingHost(points), signal };
    },
    [Symbol.asyncDispose]: async () => {
      await kubernetes[Symbol.asyncDispose]();
      await harness[Symbol.asyncDispose]();
    },
  };
}

/** The steps that the program reports are effects too. */
class SteppingHost extends RecordingHost {
  readonly #points: Points;

  constructor(points: Points) {
    super();
    this.#points = points;
  }

  override async step<T>(...step: Parameters<RecordingHost['step']>): Promise<T> {
    this.#points.pass();
    const value = (await super.step(...step)) as T;
    this.#points.pass();
    return value;
  }
}

function interruptible(files: MemoryFiles, points: Points): MemoryFiles {
  const writes: readonly PropertyKey[] = ['writeAtomic', 'createExclusive', 'remove'];
  return new Proxy(files, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return async (...args: unknown[]): Promise<unknown> => {
        if (writes.includes(name)) points.pass();
        const value: unknown = await (member as (...all: unknown[]) => unknown).apply(target, args);
        if (writes.includes(name)) points.pass();
        return value;
      };
    },
  });
}

/** A configuration whose inventory lists no machine. */
const CONFIGURATION = Buffer.from(
  JSON.stringify({
    version: 1,
    name: 'prod',
    attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
  }),
);

interface Parts {
  readonly find: (name: string) => State['nodes'][number];
  /**
   * Wraps a call that changes nothing. The program is never interrupted at such a call, because the result would be the
   * same as at the next effect.
   */
  readonly look: <Q, A>(work: (request: Q) => A) => (request: Q) => Promise<A>;
  readonly effect: <Q, A>(work: (request: Q) => A) => (request: Q) => Promise<A>;
}

interface Cluster {
  readonly state: State;
  /**
   * How often each machine was started. Not part of the compared state, because a repeated command may restart the
   * machine again.
   */
  readonly boots: Record<string, number>;
  /** The boot on record: what a machine has reported since it restarted. */
  readonly reportedBoots: Record<string, number>;
  /** Machines that restart end their session before they answer, and report their boot only when they are called again. */
  readonly losesAnswers: boolean;
  /** Machines that are switched off start again by themselves. */
  readonly startsAgain: boolean;
  /** How the state disks of nodes are sealed, by name; other nodes have none. */
  readonly seals: Readonly<Record<string, DiskSeal>>;
  /** Fingerprint of the owner's key. */
  readonly owner: string;
}
interface ByName {
  readonly node: string;
}
interface ById {
  readonly nodeId: string;
}

/** What a node does with an order, and what its curator returns. */
function restart({ boots, reportedBoots, losesAnswers }: Cluster, name: string, bootId = ''): void {
  const current = boots[name] ?? 0;
  if (bootId !== `boot-${current}`) {
    reportedBoots[name] = current;
    const cause = reportedError('nodestream-other-boot', 'the order is for another boot');
    throw new CodedError(refusals, 'streams-node-refused', `calling ${name}`, { cause });
  }
  boots[name] = current + 1;
  if (losesAnswers) throw new CodedError(refusals, 'streams-node-gone', `calling ${name}`);
  reportedBoots[name] = current + 1;
}

function withBoot({ reportedBoots: boots }: Cluster, node: State['nodes'][number]) {
  return { ...node, status: { ...node.status, bootId: `boot-${boots[node.name] ?? 0}` } };
}

function curatorOf(cluster: Cluster, { find, look, effect }: Parts) {
  const members = () => cluster.state.nodes.filter(({ roles }) => roles.includes(NodeRole.CONSENSUS_MEMBER));
  return {
    getNode: look(({ node }: ByName) => ({ node: withBoot(cluster, find(node)) })),
    listNodes: look(() => {
      const kubernetesEtcd = { hasLeader: true, members: members().map(({ nodeId }) => ({ name: nodeId })) };
      return {
        nodes: cluster.state.nodes.map((node) =>
          members().includes(node) ? { ...node, status: { ...node.status, kubernetesEtcd } } : node,
        ),
      };
    }),
    getConfiguration: look(() => ({ document: CONFIGURATION, revision: 1n, updatedBy: 'node-1' })),
    getClusterInfo: look(() => ({
      directory: [],
      etcd: { hasLeader: true, members: members().map(({ name }) => ({ name, isLearner: false })) },
    })),
    setNodeRoles: effect(({ nodeId, roles }: ById & { readonly roles: readonly NodeRole[] }) => {
      const node = find(nodeId);
      node.roles = [...roles];
      node.wasControlPlane ||= roles.includes(NodeRole.CONSENSUS_MEMBER);
      if (node.health === NodeHealth.HEALTHY)
        node.status.holdsKeys = roles.includes(NodeRole.CONSENSUS_MEMBER);
      node.status.controlPlane = roles.includes(NodeRole.CONSENSUS_MEMBER) ? reportedComponents() : [];
      return { node };
    }),
    setNodeState: effect(({ nodeId, state }: ById & { readonly state: NodeState }) => {
      find(nodeId).state = state;
      return {};
    }),
    updateNodeLabels: effect(({ nodeId, set }: ById & { readonly set: Record<string, string> }) => {
      const node = find(nodeId);
      Object.assign(node.labels, set);
      return { node };
    }),
    updateNodeTaints: effect(({ nodeId, set }: ById & { readonly set: readonly TaintOnRecord[] }) => {
      const node = find(nodeId);
      const others = node.taints.filter((old) => set.every((taint) => taint.key !== old.key));
      node.taints = [...others, ...set.map(({ key, value, effect }) => ({ key, value, effect }))];
      return { node };
    }),
    deleteNode: effect(({ nodeId }: ById) => {
      const { name, wasControlPlane, status } = find(nodeId);
      const had = status.holdsKeys ? RemovedKeys.LEFT : RemovedKeys.DELETED;
      const sharedKeys = wasControlPlane ? had : RemovedKeys.NONE;
      const keyGeneration = wasControlPlane ? status.keys.generation : 0n;
      cluster.state.removed.push({ nodeId, name, sharedKeys, keyGeneration });
      cluster.state.nodes = cluster.state.nodes.filter((each) => each.nodeId !== nodeId);
      return {};
    }),
  };
}

function admissionOf(cluster: Cluster, { look, effect }: Pick<Parts, 'look' | 'effect'>) {
  return {
    getKeys: look(() => ({ stage: { generation: BigInt(cluster.state.generation), phase: 'done' } })),
    rotateKeys: effect(({ replaces }: { readonly replaces: bigint }) => {
      if (cluster.state.generation <= Math.max(1, Number(replaces))) cluster.state.generation++;
      return { generation: BigInt(cluster.state.generation), isDone: true };
    }),
    listBackups: look(() => ({
      backups: cluster.state.backups.map(({ seq, node, isProved }) => ({
        seq: BigInt(seq),
        nodeId: cluster.state.nodes.find(({ name }) => name === node)?.nodeId ?? '',
        provedMs: isProved ? 1n : 0n,
      })),
    })),
    listOperators: look(() => ({
      operators: [
        { name: 'owner', role: 'owner', fingerprint: cluster.owner },
        ...cluster.state.operators.map((name) => ({ name, role: 'operator', fingerprint: '' })),
      ],
    })),
    deleteOperator: effect(({ name }: { readonly name: string }) => {
      const { state } = cluster;
      if (!state.operators.includes(name))
        throw new CodedError(refusals, 'operatorapi-operator-unknown', `operator ${name} not found`);
      state.operators = state.operators.filter((each) => each !== name);
      state.removedOperators.push(name);
      return {};
    }),
    listAudit: async function* () {
      let head = EMPTY_CHAIN;
      for (const subject of cluster.state.removedOperators) {
        const facts = { timeMs: 1, caller: 'operator:owner', method: 'DeleteOperator', subject, detail: {} };
        const entry = extendChain(head, facts);
        head = entry.head;
        yield { message: { case: 'entry' as const, value: { seq: BigInt(head.seq), record: entry.record } } };
      }
      const value = { seq: BigInt(head.seq), hash: head.hash, firstSeq: 1n, epoch: 1n };
      yield { message: { case: 'head' as const, value } };
    },
    listJoins: look(() => ({ joins: [], dropped: 0n })),
    decideJoin: effect(
      ({
        join,
        decision,
      }: {
        readonly join: string;
        readonly decision: { readonly case: string | undefined };
      }) => {
        cluster.state.decisions[join] = decision.case ?? '';
        return {};
      },
    ),
  };
}

function streamsOf(cluster: Cluster, { find, look, effect }: Parts) {
  return {
    getDiskSeal: look(({ node }: ByName) => {
      const { name, nodeId } = find(node);
      const seal = cluster.seals[name];
      if (seal === undefined)
        throw new CodedError(refusals, 'streams-node-refused', `calling ${name}: no state disk`);
      const report = { seal: toBinary(DiskSealSchema, seal), variant: 'tpm', evidence: new Uint8Array() };
      return { nodeId, report };
    }),
    getMetrics: look(({ node }: ByName) => ({ text: find(node).name })),
    changePower: effect(
      ({
        node,
        power,
      }: ByName & {
        readonly power?: { readonly action: PowerAction; readonly bootId: string } | undefined;
      }) => {
        const ordered = find(node);
        if (power?.action === PowerAction.OFF && !cluster.startsAgain) {
          cluster.state.machines[ordered.name] = 'off';
          ordered.health = NodeHealth.TIMEOUT;
        } else restart(cluster, ordered.name, power?.bootId);
        return {};
      },
    ),
    resetNode: effect(({ node }: ByName) => {
      const ordered = find(node);
      cluster.state.machines[ordered.name] = 'fresh';
      ordered.health = NodeHealth.TIMEOUT;
      return {};
    }),
    probeRemoved: look(() => {
      const credentials = ['own', ...SHARED_KEYS.flatMap((key) => key.credentials)];
      const results = credentials.map((credential) => ({
        endpoint: credential.includes('etcd-') ? credential : 'curator',
        node: 'n1',
        credential,
        outcome: Outcome.REFUSED,
      }));
      return { report: { results } };
    }),
  };
}

/**
 * A Kubernetes API with nodes by name, pods that end when they are evicted, and access reviews of kubelets.
 */
function kubernetesAnswer(state: State, { method, url, body }: FakeRequest, points: Points): unknown {
  const isEffect = method !== 'GET' && !url.endsWith('/subjectaccessreviews');
  try {
    points.stopping.signal.throwIfAborted();
    if (isEffect) points.pass();
    const answer = kubernetesEffect(state, { method, url, body });
    if (isEffect) points.pass();
    return answer;
  } catch {
    return new Error('the program has ended');
  }
}

function kubernetesEffect(state: State, { method, url, body }: FakeRequest): unknown {
  const name = /^\/api\/v1\/nodes\/(\w+)$/.exec(url)?.[1];
  const node = state.kubernetes.find((each) => each.name === name);
  if (url === '/api/v1/nodes') return { items: state.kubernetes.map((each) => ({ metadata: each })) };
  const evicted = /^\/api\/v1\/namespaces\/default\/pods\/on-(\w+)\/eviction$/.exec(url)?.[1];
  if (evicted !== undefined) state.pods = state.pods.filter((on) => on !== evicted);
  const on = /^\/api\/v1\/pods\?fieldSelector=spec.nodeName%3D(\w+)$/.exec(url)?.[1];
  if (on !== undefined)
    return {
      items: [
        ...state.pods.filter((each) => each === on).map((each) => podOn(each, state)),
        ...state.unreported.filter((each) => each === on).map(unreportedPod),
      ],
    };
  if (url.endsWith('/subjectaccessreviews')) {
    const { spec } = body as { readonly spec: { readonly uid: string } };
    const denied = !state.nodes.some(({ nodeId }) => nodeId === spec.uid);
    return { status: { allowed: !denied, denied } };
  }
  if (method === 'DELETE') state.kubernetes = state.kubernetes.filter((each) => each !== node);
  if (method === 'PATCH' && node !== undefined) cordon(node, body);
  if (node === undefined) return url === '/readyz' ? 'ok' : {};
  const isWorker = state.nodes.find((each) => each.name === name)?.roles.includes(NodeRole.KUBERNETES_WORKER);
  const annotations = node.cordonedBy === '' ? {} : { 'cluster/cordoned-by': node.cordonedBy };
  const taints = isWorker === true ? [] : [CONTROL_PLANE_TAINT];
  return { metadata: { name, annotations }, spec: { unschedulable: node.isCordoned, taints } };
}

function cordon(node: State['kubernetes'][number], patch: unknown): void {
  const { metadata, spec } = patch as {
    readonly metadata: { readonly annotations: Readonly<Record<string, string | null>> };
    readonly spec: { readonly unschedulable: boolean | null };
  };
  node.isCordoned = spec.unschedulable === true;
  node.cordonedBy = metadata.annotations['cluster/cordoned-by'] ?? '';
}

function podOn(name: string, { podKinds, tolerations }: State) {
  const kind = podKinds[name];
  const ownerReferences = kind === 'alone' ? [] : [{ kind: 'ReplicaSet', name: 'web' }];
  const metadata = { name: `on-${name}`, namespace: 'default', uid: `uid-${name}`, ownerReferences };
  const spec = kind === 'with-data' ? { volumes: [{ name: 'scratch', emptyDir: {} }] } : {};
  return { metadata, spec: { ...spec, tolerations: tolerations[name] }, status: { phase: 'Running' } };
}

function unreportedPod(name: string) {
  const annotations = { 'kubernetes.io/config.mirror': 'hash' };
  const metadata = {
    name: `kube-apiserver-${name}`,
    namespace: 'kube-system',
    uid: `api-${name}`,
    annotations,
  };
  return {
    metadata,
    spec: {},
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'False' }] },
  };
}
