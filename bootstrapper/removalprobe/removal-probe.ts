import type { KeySpace } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { KeyCertificateSigner } from '../../internal/pki/index.ts';
import { NODES_PREFIX, records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { ENDPOINT_RULES, judgeAnswer, type Endpoint, type EndpointKind, type Verdict } from './endpoints.ts';
import { RemovalProbeError } from './errors.ts';
import { findEndpoints, type EtcdMemberLists } from './find-endpoints.ts';
import { probeCurator, probeHttps, type ProbeAnswer } from './probe-endpoint.ts';
import {
  readPair,
  readSigningKeys,
  type KeyPairs,
  type PairFiles,
  type SharedKeyFiles,
  type SigningKeys,
} from './signing-keys.ts';
import {
  ACCOUNT_PATH,
  accountUidIn,
  createServiceAccountToken,
  createTestCertificate,
  TEST_CERTIFICATES,
  type TestCredential,
  type TestCredentialName,
} from './test-credentials.ts';

/** `nodeIdOf` (internal/pki). */
const NODE_ID = /^node-[0-9a-f]{32}$/;
/** A probe must not overload the kubelets of a large cluster. */
const CONCURRENT_ENDPOINTS = 8;

/** What a removal probe uses of this control plane. */
export interface RemovalProbePorts {
  /** The records of the cluster, linearizable. */
  readonly etcd: KeySpace;
  readonly listMembers: (signal: AbortSignal) => Promise<EtcdMemberLists>;
  readonly files: FilePort;
  readonly nowMs: () => number;
  readonly log: Logger;
  readonly clusterId: string;
  /** Name of this node, whose Node object its own kubelet may read. */
  readonly nodeName: string;
}

/** Files of this control plane. */
export interface RemovalProbeFiles extends SharedKeyFiles {
  /** A credential that each kind of endpoint must admit: an endpoint that refuses everybody proves nothing. */
  readonly valid: Readonly<Record<EndpointKind, PairFiles>>;
}

/** What a curator asks for. */
export interface RemovalProbeRequest {
  /** Id of a node that is no member. */
  readonly nodeId: string;
  /** Whether the node held the keys of a control plane; then credentials made with them are tested as well. */
  readonly heldKeys: boolean;
  /** Generation of these keys. 0: the current keys, and only the credentials of agents that knew no generations. */
  readonly generation: number;
}

/** The result of one test credential at one endpoint. */
export interface ProbeResult extends Verdict {
  readonly endpoint: Endpoint;
  readonly credential: TestCredentialName;
}

/** All results of a removal probe. */
export interface RemovalProbeReport {
  readonly results: readonly ProbeResult[];
  /** Names of members without heartbeat or address, which were not probed. */
  readonly away: readonly string[];
}

/**
 * Presents test credentials of a removed node to every endpoint of every live node. The credentials are created for each
 * endpoint, are valid for 60 s, and leave the memory of this process only inside TLS.
 * @throws RemovalProbeError `removalprobe-is-member`, `removalprobe-request-invalid`, `removalprobe-not-control-plane`
 */
export async function runRemovalProbe(
  ports: RemovalProbePorts,
  files: RemovalProbeFiles,
  request: RemovalProbeRequest,
  signal: AbortSignal,
): Promise<RemovalProbeReport> {
  await refuseMember(ports, request.nodeId, signal);
  const { entries } = await ports.etcd.list(NODES_PREFIX, { signal });
  const { endpoints, away } = findEndpoints(entries, await ports.listMembers(signal));
  ports.log.warn('probing endpoints in the name of a removed node', {
    ...request,
    endpoints: endpoints.length,
  });
  const keys = await readSigningKeys(ports.files, files);
  const prober = new EndpointProber({ ports, files, request, keys, signal });
  await prober.findAccount(endpoints);
  const results: (readonly ProbeResult[])[] = [];
  const queue = endpoints.entries();
  const probeQueued = async (): Promise<void> => {
    for (const [index, endpoint] of queue) results[index] = await prober.probe(endpoint);
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

interface ProbeContext {
  readonly ports: RemovalProbePorts;
  readonly files: RemovalProbeFiles;
  readonly request: RemovalProbeRequest;
  readonly keys: SigningKeys;
  readonly signal: AbortSignal;
}

/** Creates and presents the credentials of one removal probe. */
class EndpointProber {
  readonly #context: ProbeContext;
  /** Uid of the service account that test tokens name; undefined where no API server tells it. */
  #accountUid: string | undefined;

  constructor(context: ProbeContext) {
    this.#context = context;
  }

  /** Asks the API servers in turn for the service account that test tokens name. */
  async findAccount(endpoints: readonly Endpoint[]): Promise<void> {
    const { request } = this.#context;
    if (!request.heldKeys || request.generation === 0) return;
    for (const endpoint of endpoints.filter(({ kind }) => kind === 'api-server')) {
      const answer = await this.#presentValid(endpoint, 'kubelet', ACCOUNT_PATH);
      this.#accountUid = answer.kind === 'status' ? accountUidIn(answer.body) : undefined;
      if (this.#accountUid !== undefined) return;
    }
  }

  async probe(endpoint: Endpoint): Promise<readonly ProbeResult[]> {
    const { heldKeys, generation } = this.#context.request;
    const { current, ofGeneration } = this.#context.keys;
    const { ofNode, foreign, ofHeldKeys } = ENDPOINT_RULES[endpoint.kind];
    const held = ofGeneration(generation);
    const unusable = await this.#whyUnusable(endpoint);
    const judge = async (name: TestCredentialName, keys: KeyPairs): Promise<Verdict> =>
      unusable ?? this.#judge(endpoint, name, keys);
    const results: ProbeResult[] = [];
    for (const credential of [...ofNode, ...(heldKeys ? foreign : [])])
      results.push({ endpoint, credential, ...(await judge(credential, current)) });
    for (const credential of heldKeys ? ofHeldKeys : []) {
      if (generation === 0 && !WITHOUT_GENERATION.includes(credential)) continue;
      const verdict = held === undefined ? KEYS_DELETED : await judge(credential, held);
      const control = held === current ? undefined : CONTROLS[credential];
      const confirmed =
        verdict.outcome === 'refused' && control !== undefined
          ? confirm(verdict, await judge(control, current))
          : verdict;
      results.push({ endpoint, credential, ...confirmed });
    }
    return results;
  }

  async #judge(endpoint: Endpoint, name: TestCredentialName, keys: KeyPairs): Promise<Verdict> {
    const credential = await this.#create(name, keys);
    if (credential === undefined) return NO_ACCOUNT;
    const { nodeId } = this.#context.request;
    const answer = await this.#present(endpoint, credential, ENDPOINT_RULES[endpoint.kind].path(nodeId));
    this.#context.signal.throwIfAborted();
    return judgeAnswer(endpoint.kind, name, answer);
  }

  /** Created for one request: it would expire before the last of a thousand endpoints. */
  async #create(name: TestCredentialName, keys: KeyPairs): Promise<TestCredential | undefined> {
    const { ports, request } = this.#context;
    const { nowMs, clusterId } = ports;
    if (name !== 'service-account') {
      const { public: caPem, private: keyPem } = keys(TEST_CERTIFICATES[name].ca);
      const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs });
      return createTestCertificate(name, { nodeId: request.nodeId, clusterId }, signer);
    }
    const uid = this.#accountUid;
    const { private: keyPem } = keys(name);
    return uid === undefined
      ? undefined
      : { token: createServiceAccountToken(keyPem, { uid, nowMs: nowMs() }) };
  }

  /** The verdict for all credentials where the endpoint does not admit a valid one. */
  async #whyUnusable(endpoint: Endpoint): Promise<Verdict | undefined> {
    const path = ENDPOINT_RULES[endpoint.kind].path(this.#context.ports.nodeName);
    const answer = await this.#presentValid(endpoint, endpoint.kind, path);
    if (answer.kind === 'status' && answer.status === 200) return undefined;
    const { detail } = judgeAnswer(endpoint.kind, 'node', answer);
    return { outcome: 'inconclusive', detail: `a valid credential is not admitted either: ${detail}` };
  }

  async #presentValid(endpoint: Endpoint, of: EndpointKind, path: string): Promise<ProbeAnswer> {
    const { ports, files } = this.#context;
    return this.#present(endpoint, await readPair(ports.files, files.valid[of]), path);
  }

  #present({ kind, host, port }: Endpoint, credential: TestCredential, path: string): Promise<ProbeAnswer> {
    const { ports, keys, signal } = this.#context;
    const target = { host, port, serverCaPem: keys.trusted(ENDPOINT_RULES[kind].serverCa) };
    if (kind !== 'curator') return probeHttps({ ...target, path }, credential, signal);
    if ('token' in credential) throw new TypeError('curators take no tokens');
    const { clusterId, nowMs } = ports;
    return probeCurator({ ...target, clusterId, nowMs }, credential, signal);
  }
}

/** A refusal of replaced keys counts only where the same credential, made with the current keys, is admitted. */
function confirm(refused: Verdict, { outcome, detail }: Verdict): Verdict {
  if (outcome === 'admitted') return refused;
  return {
    outcome: 'inconclusive',
    detail: `made with the current keys it is not admitted either: ${detail}`,
  };
}

/** What agents tested before requests named a generation. */
const WITHOUT_GENERATION: readonly TestCredentialName[] = [
  'etcd-client',
  'etcd-peer',
  'state-etcd-client',
  'state-etcd-peer',
  'kubernetes-user',
];

/** The credential that must be admitted where the other is refused for its key alone. Other keys are never replaced. */
const CONTROLS: Readonly<Partial<Record<TestCredentialName, TestCredentialName>>> = {
  'etcd-client': 'etcd-client',
  'etcd-peer': 'etcd-peer',
  'state-etcd-client': 'state-etcd-client',
  'state-etcd-peer': 'state-etcd-peer',
  'kubernetes-user': 'kubernetes-user',
  'kubernetes-server': 'kubernetes-user',
  'front-proxy': 'front-proxy',
  'service-account': 'service-account',
};

const NO_ACCOUNT: Verdict = { outcome: 'inconclusive', detail: 'no API server returned the service account' };
const KEYS_DELETED: Verdict = {
  outcome: 'inconclusive',
  detail: 'keys of this generation were replaced more than once and are deleted',
};
