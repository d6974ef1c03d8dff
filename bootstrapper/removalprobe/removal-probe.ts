import type { Clock } from '../../internal/clock/index.ts';
import type { KeySpace } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { KeyCertificateSigner } from '../../internal/pki/index.ts';
import { NODES_PREFIX, records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  credentialsOfNode,
  ENDPOINT_RULES,
  judgeAnswer,
  pathFor,
  type Endpoint,
  type EndpointKind,
  type Verdict,
} from './endpoints.ts';
import { RemovalProbeError } from './errors.ts';
import { findEndpoints, type EtcdMemberLists } from './find-endpoints.ts';
import { probeCurator, probeHttps, type ProbeAnswer } from './probe-endpoint.ts';
import { readSigningKeys, readText, type PairFiles, type SigningKeys } from './signing-keys.ts';
import {
  ACCOUNT_PATH,
  accountUidIn,
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
export interface RemovalProbePorts {
  /** The records of the cluster, read linearizably. */
  readonly etcd: KeySpace;
  readonly listMembers: (signal: AbortSignal) => Promise<EtcdMemberLists>;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
  readonly clusterId: string;
  /** Name of this node. Its own kubelet may read the Node object of this name. */
  readonly nodeName: string;
}

/** Paths of the files of this control plane. */
export interface RemovalProbeFiles {
  /** Paths of the keys that all control planes share, named `NAME.crt` and `NAME.key`. */
  readonly keyFiles: Readonly<Record<string, string>>;
  /** Path of the key set (internal/keyset), which exists from the first rotation on. */
  readonly rotation: string;
  /**
   * A credential that each kind of endpoint must admit. The refusals of an endpoint that refuses all clients
   * prove nothing.
   */
  readonly valid: Readonly<Record<EndpointKind, PairFiles>>;
}

/** A curator's request for a removal probe. */
export interface RemovalProbeRequest {
  /** Id of a node that is not a member. */
  readonly nodeId: string;
  /**
   * Whether the node held the keys of a control plane. If so, credentials created with these keys are tested
   * as well.
   */
  readonly heldKeys: boolean;
  /**
   * Generation of these keys. 0: the current keys, and only the credentials that agents tested before
   * requests named a generation.
   */
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
  /** Names of members without heartbeat or address. These members were not probed. */
  readonly away: readonly string[];
}

/**
 * Presents test credentials of a removed node to every endpoint of every live node. The credentials are
 * created separately for each endpoint, are valid for 60 s, and are never stored or sent outside TLS.
 * @throws RemovalProbeError `removalprobe-is-member`, `removalprobe-request-invalid`,
 * `removalprobe-not-control-plane`
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
  /** Uid of the service account that test tokens name; undefined if no API server returned it. */
  #accountUid: string | undefined;

  constructor(context: ProbeContext) {
    this.#context = context;
  }

  /**
   * Requests the service account that test tokens name from one API server after the other, until one returns
   * it.
   */
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
    const { request, keys } = this.#context;
    const { foreign, ofHeldKeys } = ENDPOINT_RULES[endpoint.kind];
    const unusable = await this.#whyUnusable(endpoint);
    const verdictOf = async (name: TestCredentialName, generation: number): Promise<Verdict> =>
      unusable ?? this.#verdictOf(endpoint, name, generation);
    const ofNode = credentialsOfNode(endpoint.kind);
    const results: ProbeResult[] = [];
    for (const credential of [...ofNode, ...(request.heldKeys ? foreign : [])])
      results.push({ endpoint, credential, ...(await verdictOf(credential, 0)) });
    for (const credential of request.heldKeys ? ofHeldKeys : []) {
      const { generation } = request;
      if (generation === 0 && !WITHOUT_GENERATION.test(credential)) continue;
      const verdict = await verdictOf(credential, generation);
      const control = keys.hasRotated && generation > 0 ? controlOf(credential) : undefined;
      const isConfirmed = verdict.outcome !== 'refused' || control === undefined;
      const result = isConfirmed ? verdict : confirm(verdict, await verdictOf(control, 0));
      results.push({ endpoint, credential, ...result });
    }
    return results;
  }

  async #verdictOf(endpoint: Endpoint, name: TestCredentialName, generation: number): Promise<Verdict> {
    const { request, signal } = this.#context;
    const credential = await this.#create(name, generation);
    if (typeof credential === 'string') return { outcome: 'inconclusive', detail: credential };
    const answer = await this.#present(endpoint, credential, pathFor(endpoint.kind, request.nodeId));
    signal.throwIfAborted();
    return judgeAnswer(endpoint.kind, name, answer);
  }

  /**
   * Creates a credential for one request, because it would expire before the last of a thousand endpoints.
   * @returns a text with the reason if the credential cannot be created
   */
  async #create(name: TestCredentialName, generation: number): Promise<TestCredential | string> {
    const { ports, request, keys } = this.#context;
    const { clock, clusterId } = ports;
    const pair = keys.pair(name === 'service-account' ? name : TEST_CERTIFICATES[name][0], generation);
    if (pair === undefined) return 'keys of this generation were replaced more than once and are deleted';
    const { public: caPem, private: keyPem } = pair;
    if (name !== 'service-account') {
      const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs: () => clock.nowMs() });
      return createTestCertificate(name, { nodeId: request.nodeId, clusterId }, signer);
    }
    const uid = this.#accountUid;
    if (uid === undefined) return 'no API server returned the service account';
    return { token: createServiceAccountToken(keyPem, { uid, nowMs: clock.nowMs() }) };
  }

  /** Returns the verdict for all credentials if the endpoint admits no valid credential. */
  async #whyUnusable(endpoint: Endpoint): Promise<Verdict | undefined> {
    const path = pathFor(endpoint.kind, this.#context.ports.nodeName);
    const answer = await this.#presentValid(endpoint, endpoint.kind, path);
    if (answer.kind === 'status' && answer.status === 200) return undefined;
    const { detail } = judgeAnswer(endpoint.kind, 'node', answer);
    return { outcome: 'inconclusive', detail: `a valid credential is not admitted either: ${detail}` };
  }

  async #presentValid(endpoint: Endpoint, of: EndpointKind, path: string): Promise<ProbeAnswer> {
    const { ports, files } = this.#context;
    const { certFile, keyFile } = files.valid[of];
    const certPem = await readText(ports.files, certFile);
    const keyPem = new Secret(await readText(ports.files, keyFile));
    return this.#present(endpoint, { certPem, keyPem }, path);
  }

  #present({ kind, host, port }: Endpoint, credential: TestCredential, path: string): Promise<ProbeAnswer> {
    const { ports, keys, signal } = this.#context;
    const target = { host, port, serverCaPem: keys.trusted(ENDPOINT_RULES[kind].serverCa) };
    if (kind !== 'curator' || 'token' in credential)
      return probeHttps({ ...target, path }, credential, signal);
    const { clusterId, clock } = ports;
    return probeCurator({ ...target, clusterId, clock }, credential, signal);
  }
}

/** Credentials that agents tested before requests named a generation. */
const WITHOUT_GENERATION = /etcd|kubernetes-user/;

/**
 * The control credential: it must be admitted if another credential is refused for its key alone. undefined
 * if the key is never replaced.
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
