import { create, toBinary } from '@bufbuild/protobuf';
import { mapConcurrently } from '../../internal/cleanup/index.ts';
import { Namespace, type KeySpace } from '../../internal/etcd/index.ts';
import { trustedPem, type KeySet } from '../../internal/keyset/index.ts';
import { NODE_ID } from '../../internal/pki/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { CLUSTER_PREFIX, NODES_PREFIX, records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import {
  ProbeReportSchema,
  ProbeResult_Outcome as Outcome,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { KeyPairFiles } from '../consensus/index.ts';
import type { EncryptedEtcd } from '../kubernetes/index.ts';
import type { EtcdMembers } from '../controlplane/index.ts';
import {
  isEtcd,
  judgeAnswer,
  probeCurator,
  probeHttps,
  stringIn,
  type ProbeAnswer,
  type Verdict,
} from './answers.ts';
import {
  ACCOUNT_PATH,
  createTestCredential,
  readPair,
  readSharedKeys,
  type SharedKeyName,
  type TestCredential,
  type TestCredentialName,
} from './credentials.ts';
import {
  credentialsFor,
  ENDPOINT_RULES,
  findEndpoints,
  type Endpoint,
  type EndpointKind,
  type EtcdMemberLists,
} from './endpoints.ts';
import { ENCRYPTED_DATA, ENCRYPTION_CREDENTIAL, probeEncryptedObjects } from './encrypted-objects.ts';
import { RemovalProbeError } from './errors.ts';

/** Limit on parallel probes, so that a probe does not overload the kubelets of a large cluster. */
const CONCURRENT_ENDPOINTS = 8;

const OUTCOMES = {
  refused: Outcome.REFUSED,
  admitted: Outcome.LET_IN,
  inconclusive: Outcome.UNPROVED,
} as const;

/** A curator's request for a removal probe. */
export interface RemovalProbeRequest {
  /** Id of a node that was removed from the cluster. */
  readonly nodeId: string;
  /** Whether the node held the keys of a control plane, so that credentials created with them are tested too. */
  readonly heldKeys: boolean;
  /** Generation of these keys; 0: the current keys (see `credentialsFor()`). */
  readonly generation: number;
}

/** Ports (injected dependencies) of a removal probe. */
export interface RemovalProbePorts extends Pick<SystemPorts, 'files' | 'clock' | 'log'> {
  /** The records of the cluster, read linearizably. */
  readonly etcd: KeySpace;
  readonly listMembers: (signal: AbortSignal) => Promise<EtcdMemberLists>;
  /** The local member of Kubernetes' etcd. */
  readonly kubernetesEtcd: Pick<EncryptedEtcd, 'get' | 'keys'>;
  readonly clusterId: string;
  /** Name of this node. Its own kubelet may read the Node object of this name. */
  readonly nodeName: string;
}

/**
 * Runs one removal probe at a time for an operator; resolves with the bytes of a `ProbeReport`.
 * @param etcdMembers clients of the local etcd members with root credentials; undefined unless this node is a
 * serving member
 */
export function createRemovalProbeTask(
  ports: Omit<RemovalProbePorts, 'etcd' | 'kubernetesEtcd' | 'listMembers'>,
  etcdMembers: () => EtcdMembers | undefined,
): (request: RemovalProbeRequest, signal: AbortSignal) => Promise<Uint8Array> {
  let isRunning = false;
  return async (request, signal) => {
    const etcds = etcdMembers();
    const doing = `probing for removed node ${request.nodeId}`;
    if (etcds === undefined) throw new RemovalProbeError('removalprobe-not-control-plane', doing);
    if (isRunning) throw new RemovalProbeError('removalprobe-busy', doing);
    isRunning = true;
    try {
      const etcd = new Namespace(etcds.state, CLUSTER_PREFIX);
      const listMembers = async () => ({
        state: await etcds.state.members.list({ signal }),
        kubernetes: await etcds.kubernetes.members.list({ signal }),
      });
      const parts = { ...ports, etcd, kubernetesEtcd: etcds.kubernetes, listMembers };
      const { results, away } = await runRemovalProbe(parts, request, signal);
      const wire = results.map((result) => ({ ...result, outcome: OUTCOMES[result.outcome] }));
      return toBinary(ProbeReportSchema, create(ProbeReportSchema, { results: wire, away: [...away] }));
    } finally {
      isRunning = false;
    }
  };
}

/**
 * Presents test credentials of a removed node to every endpoint of every live node. The credentials are
 * created separately for each endpoint, are valid for 60 s, and are never stored or sent outside TLS.
 * @returns the result of each credential at each endpoint, with the name of the node that runs the endpoint;
 * `away`: names of members without heartbeat or address, which were not probed
 * @throws RemovalProbeError `removalprobe-is-member`, `removalprobe-request-invalid`,
 * `removalprobe-not-control-plane`
 */
export async function runRemovalProbe(
  ports: RemovalProbePorts,
  request: RemovalProbeRequest,
  signal: AbortSignal,
) {
  await refuseMember(ports, request.nodeId, signal);
  const { entries } = await ports.etcd.list(NODES_PREFIX, { signal });
  const { endpoints, away } = findEndpoints(entries, await ports.listMembers(signal));
  const count = { endpoints: endpoints.length };
  ports.log.warn('probing endpoints in the name of a removed node', { ...request, ...count });
  const probe: Probe = { ...ports, request, keys: await readSharedKeys(ports.files), signal };
  const accountUid = await findAccount(probe, endpoints);
  const results = await mapConcurrently(endpoints, CONCURRENT_ENDPOINTS, (endpoint) =>
    probeEndpoint(probe, endpoint, accountUid),
  );
  return { results: [...results.flat(), ...(await probeEncryption(probe))], away };
}

/** The result of one test. */
interface ProbedCredential extends Verdict {
  readonly node: string;
  readonly endpoint: EndpointKind | typeof ENCRYPTED_DATA;
  readonly credential: TestCredentialName | typeof ENCRYPTION_CREDENTIAL;
}

/** What the encryption key of the removed node decrypts. */
async function probeEncryption(probe: Probe): Promise<readonly ProbedCredential[]> {
  const { request, nodeName: node, kubernetesEtcd: etcd, signal } = probe;
  if (!request.heldKeys || request.generation === 0) return [];
  const verdict = await probeEncryptedObjects({ ...probe, etcd }, request.generation, signal);
  return [{ node, endpoint: ENCRYPTED_DATA, credential: ENCRYPTION_CREDENTIAL, ...verdict }];
}

interface Probe extends RemovalProbePorts {
  readonly request: RemovalProbeRequest;
  readonly keys: KeySet<SharedKeyName>;
  readonly signal: AbortSignal;
}

async function refuseMember({ etcd }: RemovalProbePorts, nodeId: string, signal: AbortSignal): Promise<void> {
  if (!NODE_ID.test(nodeId))
    throw new RemovalProbeError(
      'removalprobe-request-invalid',
      `probing for removed node: ${JSON.stringify(nodeId.slice(0, 80))} is no node id`,
    );
  const { record } = await records.node.read(etcd, records.node.key(nodeId), signal);
  if (record !== undefined && isMemberState(record.state))
    throw new RemovalProbeError('removalprobe-is-member', `probing for removed node: ${nodeId} is a member`);
}

/** The uid of the account that test tokens name; undefined if no API server returns it, or no token is tested. */
async function findAccount(probe: Probe, endpoints: readonly Endpoint[]): Promise<string | undefined> {
  if (!probe.request.heldKeys || probe.request.generation === 0) return undefined;
  for (const endpoint of endpoints.filter(({ kind }) => kind === 'api-server')) {
    // As this API server's client at kubelets, because a kubelet may not read service accounts.
    const answer = await presentFiles(probe, endpoint, ENDPOINT_RULES.kubelet.valid, ACCOUNT_PATH);
    const uid = answer.kind === 'status' ? stringIn(answer.body, 'metadata', 'uid') : undefined;
    if (uid !== undefined) return uid;
  }
  return undefined;
}

/** Tests every credential at one endpoint. If the endpoint admits no valid credential, no refusal counts. */
async function probeEndpoint(
  probe: Probe,
  endpoint: Endpoint,
  accountUid: string | undefined,
): Promise<ProbedCredential[]> {
  const { node, kind } = endpoint;
  const { keys, request, clusterId, clock, signal } = probe;
  const { nodeId } = request;
  const creation = { nodeId, clusterId, keys, accountUid, nowMs: () => clock.nowMs() };
  const own = ENDPOINT_RULES[kind].valid;
  const valid = await presentFiles(probe, endpoint, own, pathFor(kind, probe.nodeName));
  const isUsable = valid.kind === 'status' && valid.status === 200;
  const test = async (name: TestCredentialName, generation: number): Promise<Verdict> => {
    if (!isUsable)
      return inconclusive(
        `a valid credential is not admitted either: ${judgeAnswer(kind, 'node', valid).detail}`,
      );
    const credential = await createTestCredential(name, generation, creation);
    if (typeof credential === 'string') return inconclusive(credential);
    const answer = await present(probe, endpoint, credential, pathFor(kind, nodeId));
    signal.throwIfAborted();
    return judgeAnswer(kind, name, answer);
  };
  const results: ProbedCredential[] = [];
  for (const { name, generation } of credentialsFor(kind, request)) {
    let verdict = await test(name, generation);
    const control = keys.generation > 1 && generation > 0 ? controlOf(name) : undefined;
    if (verdict.outcome === 'refused' && control !== undefined) {
      const { outcome, detail } = await test(control, 0);
      if (outcome !== 'admitted')
        verdict = inconclusive(`made with the current keys it is not admitted either: ${detail}`);
    }
    results.push({ node, endpoint: kind, credential: name, ...verdict });
  }
  return results;
}

/**
 * Created with the current keys, this credential must be admitted, or the refusal of replaced keys proves
 * nothing. undefined if the key is never replaced.
 */
function controlOf(name: TestCredentialName): TestCredentialName | undefined {
  if (name === 'member' || name === 'operator') return undefined;
  return name === 'kubernetes-server' ? 'kubernetes-user' : name;
}

function inconclusive(detail: string): Verdict {
  return { outcome: 'inconclusive', detail };
}

/** The requested path. `name` is a node whose kubelet may read its own Node object. */
function pathFor(kind: EndpointKind, name: string): string {
  if (isEtcd(kind)) return '/version';
  return kind === 'api-server' ? `/api/v1/nodes/${name}` : '/pods';
}

async function presentFiles(
  probe: Probe,
  endpoint: Endpoint,
  pair: KeyPairFiles,
  path: string,
): Promise<ProbeAnswer> {
  const { public: certPem, private: keyPem } = await readPair(probe.files, pair);
  return present(probe, endpoint, { certPem, keyPem }, path);
}

function present(
  { keys, clusterId, clock, signal }: Probe,
  { kind, host, port }: Endpoint,
  credential: TestCredential,
  path: string,
): Promise<ProbeAnswer> {
  const target = { host, port, serverCaPem: trustedPem(keys, ENDPOINT_RULES[kind].serverCa) };
  return kind === 'curator' && 'certPem' in credential
    ? probeCurator({ ...target, clusterId, clock }, credential, signal)
    : probeHttps({ ...target, path }, credential, signal);
}
