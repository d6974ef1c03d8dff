import { create, toBinary } from '@bufbuild/protobuf';
import { mapConcurrently } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import { Namespace, type EtcdClient, type KeySpace } from '../../internal/etcd/index.ts';
import { trustedPem } from '../../internal/keyset/index.ts';
import { NODE_ID } from '../../internal/pki/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { CLUSTER_PREFIX, NODES_PREFIX, records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import {
  ProbeReportSchema,
  ProbeResult_Outcome as Outcome,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import type { EncryptedEtcd } from '../kubernetes/index.ts';
import {
  createTestCredential,
  readAccountUid,
  readCertificate,
  readSharedKeys,
  type CredentialSource,
  type TestCredential,
  type TestCredentialName,
} from './credentials.ts';
import { ENCRYPTED_DATA, ENCRYPTION_CREDENTIAL, probeEncryptedObjects } from './encrypted-objects.ts';
import {
  credentialsFor,
  ENDPOINT_RULES,
  findEndpoints,
  inconclusive,
  judgeAnswer,
  pathFor,
  type Endpoint,
  type Verdict,
} from './endpoints.ts';
import { RemovalProbeError } from './errors.ts';
import { callCurator, sendHttps, SUCCESS } from './send-credential.ts';

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
  readonly clusterId: string;
  /** Name of this node. Its own kubelet may read the Node object of this name. */
  readonly nodeName: string;
}

/** Clients of the local etcd members with root credentials. Reads of the state etcd are linearizable. */
export interface ProbedEtcds {
  readonly state: KeySpace & ListsMembers;
  readonly kubernetes: Pick<EncryptedEtcd, 'get' | 'keys'> & ListsMembers;
}

interface ListsMembers {
  readonly members: Pick<EtcdClient['members'], 'list'>;
}

/**
 * Runs one removal probe at a time for an operator; resolves with the bytes of a `ProbeReport`.
 * @param etcdMembers undefined unless this node is a serving member of both etcd clusters
 */
export function createRemovalProbeTask(
  ports: RemovalProbePorts,
  etcdMembers: () => ProbedEtcds | undefined,
): (request: RemovalProbeRequest, signal: AbortSignal) => Promise<Uint8Array> {
  let isRunning = false;
  return async (request, signal) => {
    const etcds = etcdMembers();
    const doing = `probing for removed node ${request.nodeId}`;
    if (etcds === undefined) throw new RemovalProbeError('removalprobe-not-control-plane', doing);
    if (isRunning) throw new RemovalProbeError('removalprobe-busy', doing);
    isRunning = true;
    try {
      const { results, away } = await runRemovalProbe({ ...ports, etcds }, request, signal);
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
  ports: RemovalProbePorts & { readonly etcds: ProbedEtcds },
  request: RemovalProbeRequest,
  signal: AbortSignal,
) {
  const { state, kubernetes } = ports.etcds;
  const etcd = new Namespace(state, CLUSTER_PREFIX);
  await refuseMember(etcd, request.nodeId, signal);
  const { entries } = await etcd.list(NODES_PREFIX, { signal });
  const { endpoints, away } = findEndpoints(entries, {
    state: await state.members.list({ signal }),
    kubernetes: await kubernetes.members.list({ signal }),
  });
  ports.log.warn('probing endpoints in the name of a removed node', {
    ...request,
    endpoints: endpoints.length,
  });
  const [keys, accountUid] = [await readSharedKeys(ports.files), await readAccountUid(kubernetes, signal)];
  const probe: Probe = { ...ports, ...request, keys, accountUid, signal };
  const results = await mapConcurrently(endpoints, CONCURRENT_ENDPOINTS, (endpoint) =>
    probeEndpoint(probe, endpoint),
  );
  return { results: [...results.flat(), ...(await probeEncryption(probe))], away };
}

interface Probe extends RemovalProbePorts, RemovalProbeRequest, CredentialSource {
  readonly clock: Clock;
  readonly etcds: ProbedEtcds;
  readonly signal: AbortSignal;
}

/** What the encryption key of the removed node decrypts. */
async function probeEncryption(probe: Probe) {
  const { heldKeys, generation, nodeName: node, etcds, signal } = probe;
  if (!heldKeys || generation === 0) return [];
  const verdict = await probeEncryptedObjects({ ...probe, etcd: etcds.kubernetes }, generation, signal);
  return [{ node, endpoint: ENCRYPTED_DATA, credential: ENCRYPTION_CREDENTIAL, ...verdict }];
}

async function refuseMember(etcd: KeySpace, nodeId: string, signal: AbortSignal): Promise<void> {
  if (!NODE_ID.test(nodeId))
    throw new RemovalProbeError(
      'removalprobe-request-invalid',
      `probing for removed node: ${JSON.stringify(nodeId.slice(0, 80))} is no node id`,
    );
  const { record } = await records.node.read(etcd, records.node.key(nodeId), signal);
  if (record !== undefined && isMemberState(record.state))
    throw new RemovalProbeError('removalprobe-is-member', `probing for removed node: ${nodeId} is a member`);
}

/** Tests every credential at one endpoint. If the endpoint admits no valid credential, no refusal counts. */
async function probeEndpoint(probe: Probe, { node, kind, ...address }: Endpoint) {
  const { keys, files, clusterId, clock, signal } = probe;
  const { serverCa, valid } = ENDPOINT_RULES[kind];
  const target = { ...address, serverCaPem: trustedPem(keys, serverCa) };
  const send = (credential: TestCredential, name: string): Promise<string> =>
    kind === 'curator' && 'certPem' in credential
      ? callCurator({ ...target, clusterId, clock }, credential, signal)
      : sendHttps({ ...target, path: pathFor(kind, name) }, credential, signal);
  const toValid = await send(await readCertificate(files, valid), probe.nodeName);
  const test = async (name: TestCredentialName, generation: number): Promise<Verdict> => {
    if (!SUCCESS.test(toValid)) return inconclusive(`a valid credential is not admitted either: ${toValid}`);
    const credential = await createTestCredential(name, generation, probe);
    if (typeof credential === 'string') return inconclusive(credential);
    const answer = await send(credential, probe.nodeId);
    signal.throwIfAborted();
    return judgeAnswer(kind, name, answer);
  };
  const results = [];
  for (const { name, generation } of credentialsFor(kind, probe)) {
    let verdict = await test(name, generation);
    // If the same credential of the current keys is refused too, the refusal of replaced keys proves nothing.
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
 * The credential that must be admitted if it is created with the current keys. undefined if there is none: curators also refuse
 * `member` and `operator` of the current cluster CA, because no record has their keys.
 */
function controlOf(name: TestCredentialName): TestCredentialName | undefined {
  if (name === 'member' || name === 'operator') return undefined;
  return name === 'kubernetes-server' ? 'kubernetes-user' : name;
}
