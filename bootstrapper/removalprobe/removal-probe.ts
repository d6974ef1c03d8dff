import { create, toBinary } from '@bufbuild/protobuf';
import { mapConcurrently } from '../../internal/cleanup/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { EtcdError, Namespace, type KeySpace } from '../../internal/etcd/index.ts';
import { activePairs, ENCRYPTABLE_RESOURCES, trustedPem } from '../../internal/keyset/index.ts';
import { NODE_ID } from '../../internal/pki/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { CLUSTER_PREFIX, NODES_PREFIX } from '../../internal/records/index.ts';
import {
  ProbeReportSchema,
  ProbeResult_Outcome as Outcome,
  type ProbeTask,
} from '../../joinservice/curatorproto/gen/streams_pb.js';
import { readSharedKeys, type EtcdMembers } from '../controlplane/index.ts';
import type { KeyStore } from '../keyrotation/index.ts';
import { countObjects, KubernetesError, readFirstEncryption, readKeyPair } from '../kubernetes/index.ts';
import { membersOnRecord } from '../membership/index.ts';
import {
  ACCOUNT,
  createTestCredential,
  type TestCredential,
  type TestCredentialName,
} from './credentials.ts';
import { findEndpoints, inconclusive, judgeAnswer, type Endpoint, type Verdict } from './endpoints.ts';
import { RemovalProbeError } from './errors.ts';
import { sendCredential } from './send-credential.ts';

/** Limit on parallel probes, so that a probe does not overload the kubelets of a large cluster. */
const CONCURRENT_ENDPOINTS = 8;
/** The name of the encryption-key test in reports. This test has no endpoint. */
const ENCRYPTED_DATA = { endpoint: 'kubernetes-etcd-data', credential: 'encryption-key' };
const ACCOUNT_KEY = `/registry/serviceaccounts/${ACCOUNT.namespace}/${ACCOUNT.name}`;
const UID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** A curator's request for a removal probe. */
type RemovalProbeRequest = Pick<ProbeTask, 'removedNodeId' | 'heldKeys' | 'generation'>;

/** Ports (injected dependencies) of a removal probe. */
interface RemovalProbePorts extends Pick<SystemPorts, 'files' | 'clock' | 'log'> {
  readonly store: Pick<KeyStore, 'loadSet'>;
  readonly clusterId: string;
  /** Name of this node. Its own kubelet may read the Node object of this name. */
  readonly nodeName: string;
}

/**
 * Runs one removal probe at a time for an operator; resolves with the bytes of a `ProbeReport`.
 * @param etcdMembers undefined unless this node is a serving member of both etcd clusters
 */
export function createRemovalProbeTask(
  ports: RemovalProbePorts,
  etcdMembers: () => EtcdMembers | undefined,
): (request: RemovalProbeRequest, signal: AbortSignal) => Promise<Uint8Array> {
  let isRunning = false;
  return async (request, signal) => {
    const etcds = etcdMembers();
    const doing = `probing for removed node ${request.removedNodeId}`;
    if (etcds === undefined) throw new RemovalProbeError('removalprobe-not-control-plane', doing);
    if (isRunning) throw new RemovalProbeError('removalprobe-busy', doing);
    isRunning = true;
    try {
      const report = await runRemovalProbe({ ...ports, etcds }, request, signal);
      return toBinary(ProbeReportSchema, create(ProbeReportSchema, report));
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
 * @throws RemovalProbeError `removalprobe-is-member`, `removalprobe-request-invalid`
 * @throws KubernetesError or KeyRotationError if this node lacks a key of a control plane
 */
export async function runRemovalProbe(...inputs: Parameters<typeof prepareProbe>) {
  const probe = await prepareProbe(...inputs);
  const { endpoints, away, log, nodeId, heldKeys, generation } = probe;
  const doing = 'probing endpoints in the name of a removed node';
  log.warn(doing, { nodeId, heldKeys, generation, endpoints: endpoints.length });
  const probeOne = (endpoint: Endpoint) => probeEndpoint(probe, endpoint);
  const results = (await mapConcurrently(endpoints, CONCURRENT_ENDPOINTS, probeOne)).flat();
  if (!heldKeys || generation === 0) return { results, away };
  const ofKey = { ...ENCRYPTED_DATA, node: probe.nodeName, ...(await probeEncryption(probe)) };
  return { results: [...results, ofKey], away };
}

/** The inputs that all tests of a probe share. */
export type Probe = Awaited<ReturnType<typeof prepareProbe>>;

/** Refuses the id of a member, finds the endpoints, and reads the keys. */
async function prepareProbe(
  ports: RemovalProbePorts & { readonly etcds: EtcdMembers },
  { removedNodeId: nodeId, heldKeys, ...request }: RemovalProbeRequest,
  signal: AbortSignal,
) {
  const { state, kubernetes } = ports.etcds;
  const doing = `probing for removed node ${JSON.stringify(nodeId.slice(0, 80))}`;
  if (!NODE_ID.test(nodeId))
    throw new RemovalProbeError('removalprobe-request-invalid', `${doing}: no node ID`);
  const { entries } = await new Namespace(state, CLUSTER_PREFIX).list(NODES_PREFIX, { signal });
  const members = membersOnRecord(entries);
  if (members.some((each) => each.nodeId === nodeId))
    throw new RemovalProbeError('removalprobe-is-member', `${doing}: it is a member`);
  const found = findEndpoints(members, {
    state: await state.members.list({ signal }),
    kubernetes: await kubernetes.members.list({ signal }),
  });
  const keys = await readSharedKeys(ports.files, ports.store);
  const current = activePairs(keys);
  const generation = Number(request.generation);
  // The keys of other generations are deleted.
  const which = ({ [keys.generation]: 'next', [keys.generation - 1]: 'previous' } as const)[generation];
  const held = generation === 0 ? current : which && keys[which];
  const accountUid = await readAccountUid(kubernetes, signal);
  return { ...ports, ...found, nodeId, heldKeys, generation, keys, current, held, which, accountUid, signal };
}

/**
 * The uid of the account that test tokens name; undefined if it cannot be read. It is the first uid in the stored
 * object, because the metadata of the object starts with name, namespace and uid
 * (k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto).
 */
export async function readAccountUid(etcd: Pick<KeySpace, 'get'>, signal: AbortSignal) {
  try {
    const stored = await etcd.get(ACCOUNT_KEY, { signal });
    return UID.exec(Buffer.from(stored?.value ?? []).toString('latin1'))?.[0];
  } catch (error) {
    if (!(error instanceof EtcdError)) throw error;
    return undefined;
  }
}

/** Tests every credential at one endpoint. If the endpoint admits no valid credential, no refusal counts. */
async function probeEndpoint(probe: Probe, { node, kind, rule, address }: Endpoint) {
  const { current, heldKeys } = probe;
  const target = { ...probe, address, serverCaPem: trustedPem(probe.keys, rule.serverCa) };
  const send = (credential: TestCredential, nodeName: string) =>
    sendCredential({ ...target, path: rule.path?.(nodeName) }, credential);
  const toValid = await send(await readKeyPair(probe.files, rule.valid), probe.nodeName);
  const test = async (name: TestCredentialName, pairs: Probe['held']): Promise<Verdict> => {
    if (!/^HTTP 200\b/.test(toValid))
      return inconclusive(`the endpoint does not admit a valid credential: ${toValid}`);
    const credential = await createTestCredential(name, pairs, probe);
    if (typeof credential === 'string') return inconclusive(credential);
    return judgeAnswer(rule, name, await send(credential, probe.nodeId));
  };
  /** If the same credential of the current keys is refused too, the refusal of replaced keys proves nothing. */
  const testHeld = async (name: TestCredentialName): Promise<Verdict> => {
    const verdict = await test(name, probe.held);
    const control = controlOf(name);
    if (verdict.outcome !== Outcome.REFUSED || control === undefined) return verdict;
    const { outcome, detail } = await test(control, current);
    if (outcome === Outcome.ADMITTED) return verdict;
    return inconclusive(`the endpoint does not admit the same credential with the current keys: ${detail}`);
  };
  const results = [];
  for (const credential of [...rule.own, ...(heldKeys ? rule.foreign : [])])
    results.push({ node, endpoint: kind, credential, ...(await test(credential, current)) });
  for (const credential of heldKeys ? rule.held : [])
    results.push({ node, endpoint: kind, credential, ...(await testHeld(credential)) });
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

/**
 * Tests what a copy of the encryption key can decrypt. Reads every stored value of Kubernetes from the local etcd
 * member, and counts the values that are encrypted with the key. "Refused" means that there are none.
 */
export async function probeEncryption({ etcds, files, keys, which, signal }: Probe): Promise<Verdict> {
  try {
    const { encryption } = keys;
    // Before its first rotation, the cluster has one encryption key in all generations.
    const key = encryption ? which && encryption[which] : (await readFirstEncryption(files)).key;
    if (key === undefined)
      return inconclusive('the name of the encryption key of this generation is unknown');
    const options = { etcd: etcds.kubernetes, resources: ENCRYPTABLE_RESOURCES, keyName: key.name };
    const { objects, others } = await countObjects(options, signal);
    const detail = `the key decrypts ${objects - others} of ${objects} stored secrets and ConfigMaps`;
    if (objects === 0) return inconclusive(detail);
    return { outcome: objects === others ? Outcome.REFUSED : Outcome.ADMITTED, detail };
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error;
    return inconclusive(describeError(error));
  }
}
