import type { KeySpace } from '../../internal/etcd/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { KeyCertificateSigner } from '../../internal/pki/index.ts';
import { NODES_PREFIX, records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { consensusLayout } from '../consensus/index.ts';
import { KUBELET_FILES, PATHS } from '../kubernetes/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import {
  credentialsFor,
  ENDPOINT_RULES,
  judgeAnswer,
  pathFor,
  stringIn,
  type Endpoint,
  type EndpointKind,
  type RemovalProbeRequest,
  type Verdict,
} from './endpoints.ts';
import { RemovalProbeError } from './errors.ts';
import { findEndpoints, type EtcdMemberLists } from './find-endpoints.ts';
import { probeCurator, probeHttps, type ProbeAnswer } from './probe-endpoint.ts';
import { readPem, readSigningKeys, type PairFiles, type SigningKeys } from './signing-keys.ts';
import {
  ACCOUNT_PATH,
  createServiceAccountToken,
  createTestCertificate,
  TEST_CERTIFICATES,
  type TestCredential,
  type TestCredentialName,
} from './test-credentials.ts';

/** The format of an id from `nodeIdOf` (internal/pki). */
const NODE_ID = /^node-[0-9a-f]{32}$/;
/** Limit on parallel probes, so that a probe does not overload the kubelets of a large cluster. */
const CONCURRENT_ENDPOINTS = 8;

/** Ports (injected dependencies) of a removal probe. */
export interface RemovalProbePorts extends Pick<SystemPorts, 'files' | 'clock' | 'log'> {
  /** The records of the cluster, read linearizably. */
  readonly etcd: KeySpace;
  readonly listMembers: (signal: AbortSignal) => Promise<EtcdMemberLists>;
  readonly clusterId: string;
  /** Name of this node. Its own kubelet may read the Node object of this name. */
  readonly nodeName: string;
}

/**
 * For each kind of endpoint, a credential that it must admit: the refusals of an endpoint that refuses all
 * clients prove nothing.
 */
export const VALID_CREDENTIALS: Readonly<Record<EndpointKind, PairFiles>> = {
  'etcd-client': consensusLayout(AGENT_PATHS.state, 'kubernetes').user('root'),
  'etcd-peer': consensusLayout(AGENT_PATHS.state, 'kubernetes').peer,
  'state-etcd-client': consensusLayout(AGENT_PATHS.state, 'state').user('root'),
  'state-etcd-peer': consensusLayout(AGENT_PATHS.state, 'state').peer,
  'api-server': { certFile: KUBELET_FILES.clientCert, keyFile: KUBELET_FILES.clientKey },
  kubelet: pairAt(`${PATHS.pki}/apiserver-kubelet-client`),
  curator: { certFile: `${AGENT_PATHS.credentials}/node.crt`, keyFile: AGENT_PATHS.machineKey },
};

function pairAt(base: string): PairFiles {
  return { certFile: `${base}.crt`, keyFile: `${base}.key` };
}

/** The result of one test credential at one endpoint. */
export interface ProbeResult extends Verdict {
  /** Name of the node that runs the endpoint. */
  readonly node: string;
  readonly endpoint: EndpointKind;
  readonly credential: TestCredentialName;
}

/** A removal probe while it runs. */
interface Probe extends RemovalProbePorts {
  readonly request: RemovalProbeRequest;
  readonly keys: SigningKeys;
  readonly signal: AbortSignal;
}

/**
 * Presents test credentials of a removed node to every endpoint of every live node. The credentials are
 * created separately for each endpoint, are valid for 60 s, and are never stored or sent outside TLS.
 * @returns also the names of members without heartbeat or address, which were not probed
 * @throws RemovalProbeError `removalprobe-is-member`, `removalprobe-request-invalid`,
 * `removalprobe-not-control-plane`
 */
export async function runRemovalProbe(
  ports: RemovalProbePorts,
  request: RemovalProbeRequest,
  signal: AbortSignal,
): Promise<{ readonly results: readonly ProbeResult[]; readonly away: readonly string[] }> {
  await refuseMember(ports, request.nodeId, signal);
  const { entries } = await ports.etcd.list(NODES_PREFIX, { signal });
  const { endpoints, away } = findEndpoints(entries, await ports.listMembers(signal));
  const count = { endpoints: endpoints.length };
  ports.log.warn('probing endpoints in the name of a removed node', { ...request, ...count });
  const probe: Probe = { ...ports, request, keys: await readSigningKeys(ports.files), signal };
  const accountUid = await findAccount(probe, endpoints);
  const results: (readonly ProbeResult[])[] = [];
  const queue = endpoints.entries();
  const probeQueued = async (): Promise<void> => {
    for (const [index, endpoint] of queue) results[index] = await probeEndpoint(probe, endpoint, accountUid);
  };
  await Promise.all(Array.from({ length: CONCURRENT_ENDPOINTS }, probeQueued));
  return { results: results.flat(), away };
}

async function refuseMember({ etcd }: RemovalProbePorts, nodeId: string, signal: AbortSignal): Promise<void> {
  if (!NODE_ID.test(nodeId))
    throw new RemovalProbeError(
      'removalprobe-request-invalid',
      `probing for removed node: ${JSON.stringify(nodeId.slice(0, 80))} is no node id`,
    );
  const key = records.node.key(nodeId);
  const entry = await etcd.get(key, { signal });
  if (entry !== undefined && isMemberState(records.node.decode(key, entry.value).state))
    throw new RemovalProbeError('removalprobe-is-member', `probing for removed node: ${nodeId} is a member`);
}

/**
 * The uid of the service account that test tokens name, from the first API server that returns it. undefined
 * if none does, or no token is tested.
 */
async function findAccount(probe: Probe, endpoints: readonly Endpoint[]): Promise<string | undefined> {
  if (!probe.request.heldKeys || probe.request.generation === 0) return undefined;
  for (const endpoint of endpoints.filter(({ kind }) => kind === 'api-server')) {
    const answer = await presentValid(probe, endpoint, 'kubelet', ACCOUNT_PATH);
    const uid = answer.kind === 'status' ? stringIn(answer.body, 'metadata', 'uid') : undefined;
    if (uid !== undefined) return uid;
  }
  return undefined;
}

async function probeEndpoint(
  probe: Probe,
  endpoint: Endpoint,
  accountUid: string | undefined,
): Promise<readonly ProbeResult[]> {
  const unusable = await whyUnusable(probe, endpoint);
  const test = async (name: TestCredentialName, generation: number): Promise<Verdict> => {
    if (unusable !== undefined) return unusable;
    const credential = await createCredential(probe, name, { generation, accountUid });
    if (typeof credential === 'string') return { outcome: 'inconclusive', detail: credential };
    const answer = await present(probe, endpoint, credential, pathFor(endpoint.kind, probe.request.nodeId));
    probe.signal.throwIfAborted();
    return judgeAnswer(endpoint.kind, name, answer);
  };
  const results: ProbeResult[] = [];
  for (const { name, generation } of credentialsFor(endpoint.kind, probe.request)) {
    let verdict = await test(name, generation);
    const control = probe.keys.hasRotated && generation > 0 ? controlOf(name) : undefined;
    if (verdict.outcome === 'refused' && control !== undefined)
      verdict = confirm(verdict, await test(control, 0));
    results.push({ node: endpoint.node, endpoint: endpoint.kind, credential: name, ...verdict });
  }
  return results;
}

/**
 * Creates a credential for one request, because it would expire before the last of a thousand endpoints.
 * @returns a text with the reason if the credential cannot be created
 */
async function createCredential(
  { keys, request, clock, clusterId }: Probe,
  name: TestCredentialName,
  { generation, accountUid: uid }: { readonly generation: number; readonly accountUid: string | undefined },
): Promise<TestCredential | string> {
  const pair = keys.pair(name === 'service-account' ? name : TEST_CERTIFICATES[name][0], generation);
  if (pair === undefined) return 'keys of this generation were replaced more than once and are deleted';
  const { public: caPem, private: keyPem } = pair;
  if (name !== 'service-account') {
    const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs: () => clock.nowMs() });
    return createTestCertificate(name, { nodeId: request.nodeId, clusterId }, signer);
  }
  if (uid === undefined) return 'no API server returned the service account';
  return { token: createServiceAccountToken(keyPem, { uid, nowMs: clock.nowMs() }) };
}

/** Returns the verdict for all credentials if the endpoint admits no valid credential. */
async function whyUnusable(probe: Probe, endpoint: Endpoint): Promise<Verdict | undefined> {
  const answer = await presentValid(probe, endpoint, endpoint.kind, pathFor(endpoint.kind, probe.nodeName));
  if (answer.kind === 'status' && answer.status === 200) return undefined;
  const { detail } = judgeAnswer(endpoint.kind, 'node', answer);
  return { outcome: 'inconclusive', detail: `a valid credential is not admitted either: ${detail}` };
}

async function presentValid(
  probe: Probe,
  endpoint: Endpoint,
  of: EndpointKind,
  path: string,
): Promise<ProbeAnswer> {
  const { certFile, keyFile } = VALID_CREDENTIALS[of];
  const certPem = await readPem(probe.files, certFile);
  const keyPem = new Secret(await readPem(probe.files, keyFile));
  return present(probe, endpoint, { certPem, keyPem }, path);
}

function present(
  { keys, clusterId, clock, signal }: Probe,
  { kind, host, port }: Endpoint,
  credential: TestCredential,
  path: string,
): Promise<ProbeAnswer> {
  const target = { host, port, serverCaPem: keys.trusted(ENDPOINT_RULES[kind].serverCa) };
  return kind === 'curator' && 'certPem' in credential
    ? probeCurator({ ...target, clusterId, clock }, credential, signal)
    : probeHttps({ ...target, path }, credential, signal);
}

/**
 * The credential to compare a refusal with: created with the current keys, it must be admitted, or the
 * refusal of replaced keys proves nothing. undefined if the key is never replaced.
 */
function controlOf(name: TestCredentialName): TestCredentialName | undefined {
  if (name === 'member' || name === 'operator') return undefined;
  return name === 'kubernetes-server' ? 'kubernetes-user' : name;
}

/**
 * Compares a refusal with the control credential. A refusal of replaced keys counts only if the same
 * credential, created with the current keys, is admitted.
 */
function confirm(refused: Verdict, { outcome, detail }: Verdict): Verdict {
  if (outcome === 'admitted') return refused;
  return {
    outcome: 'inconclusive',
    detail: `made with the current keys it is not admitted either: ${detail}`,
  };
}
