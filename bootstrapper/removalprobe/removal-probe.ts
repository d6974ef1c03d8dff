import type { KeySpace } from '../../internal/etcd/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { NODES_PREFIX, records } from '../../internal/records/index.ts';
import { isMemberState } from '../../internal/role/index.ts';
import { judgeAnswer, ENDPOINT_RULES, type Endpoint, type EndpointKind, type Verdict } from './endpoints.ts';
import { RemovalProbeError } from './errors.ts';
import { findEndpoints, type EtcdMemberLists } from './find-endpoints.ts';
import {
  readKeys,
  readPair,
  type KeyFiles,
  type KeyRing,
  type Keys,
  type PairFiles,
} from './signing-keys.ts';
import { probeHttps, type ProbeAnswer } from './probe-endpoint.ts';
import { probeCurator } from './probe-curator.ts';
import {
  CA_OF,
  createTestCertificate,
  type TestCredential,
  type TestCredentialName,
} from './test-credentials.ts';
import { ACCOUNT_PATH, createServiceAccountToken, uidIn } from './service-account-token.ts';

/** `nodeIdOf` (internal/pki). */
const NODE_ID = /^node-[0-9a-f]{32}$/;
const AT_ONCE = 8;

export interface RemovalProbePorts {
  /** The cluster's records: linearizable reads. */
  readonly etcd: KeySpace;
  readonly listMembers: (signal: AbortSignal) => Promise<EtcdMemberLists>;
  readonly files: FilePort;
  readonly nowMs: () => number;
  readonly log: Logger;
  readonly clusterId: string;
}

/** Where this control plane has what it needs. */
export interface RemovalProbeFiles extends KeyFiles {
  /** What each kind of door must let in: a door that refuses everybody proves nothing. */
  readonly genuine: Readonly<Record<EndpointKind, PairFiles & { readonly path: string }>>;
}

export interface RemovalProbeRequest {
  /** Of a node that is no member any more. */
  readonly nodeId: string;
  /** Whether it had the keys of a control plane: then what they make is tried as well. */
  readonly heldKeys: boolean;
  /** Of those keys; 0: of the keys of now, with the papers that agents tried before there were others. */
  readonly generation: number;
}

/** One paper at one door. */
export interface ProbeResult extends Verdict {
  readonly endpoint: Endpoint;
  readonly credential: TestCredentialName;
}

export interface RemovalProbeReport {
  readonly results: readonly ProbeResult[];
  /** Names of nodes that are not there and were not asked. */
  readonly away: readonly string[];
}

/**
 * Shows papers in the name of a removed node at every door of every node that is there. They are made with the keys that
 * this control plane has, live a minute, and neither they nor their keys leave the memory of this process but as TLS.
 * @throws ImpostorError `removalprobe-is-member`: no member's name is ever borrowed
 */
export async function runRemovalProbe(
  ports: RemovalProbePorts,
  files: RemovalProbeFiles,
  wish: RemovalProbeRequest,
  signal: AbortSignal,
): Promise<RemovalProbeReport> {
  await refuseMember(ports, wish.nodeId, signal);
  const { entries } = await ports.etcd.list(NODES_PREFIX, { signal });
  const { doors, away } = findEndpoints(entries, await ports.listMembers(signal));
  ports.log.warn('trying papers in the name of a removed node', { ...wish, doors: doors.length });
  const keys = await readKeys(ports.files, files, ports.nowMs);
  const round = { ports, files, keys, wish };
  const accountUid = await accountUidAt(round, doors, signal);
  const trials = await inTurns(doors, (door) => tryDoor({ ...round, accountUid }, door, signal));
  return { results: trials.flat(), away };
}

interface Round {
  readonly ports: RemovalProbePorts;
  readonly files: RemovalProbeFiles;
  readonly keys: Keys;
  readonly wish: RemovalProbeRequest;
  /** Of the service account that tokens name; undefined where nobody tells. */
  readonly accountUid?: string | undefined;
}

async function tryDoor(round: Round, door: Endpoint, signal: AbortSignal): Promise<readonly ProbeResult[]> {
  const { own, strange, shared } = ENDPOINT_RULES[door.kind];
  const { heldKeys, generation } = round.wish;
  const { present, of } = round.keys;
  const held = of(generation);
  const shut = await whyShut(round, door, signal);
  const show = async (name: TestCredentialName, ring: KeyRing): Promise<Verdict> => {
    if (shut !== undefined) return shut;
    const paper = await paperOf(round, name, ring);
    if (paper === undefined) return NOT_MADE;
    const answer = await knockAt(round, door, paper, signal);
    signal.throwIfAborted();
    return judgeAnswer(door.kind, name, answer);
  };
  const trials: ProbeResult[] = [];
  for (const paper of [...own, ...(heldKeys ? strange : [])])
    trials.push({ endpoint: door, credential: paper, ...(await show(paper, present)) });
  for (const paper of heldKeys ? shared.filter((name) => generation > 0 || FIRST.includes(name)) : []) {
    const verdict = held === undefined ? NOT_KEPT : await show(paper, held);
    const control = held === present ? undefined : CONTROLS[paper];
    trials.push({
      endpoint: door,
      credential: paper,
      ...(await doubted(verdict, control && (() => show(control, present)))),
    });
  }
  return trials;
}

/** Refused for the key, or because nothing like it is let in: only what the keys of now make can tell. */
async function doubted(verdict: Verdict, control: (() => Promise<Verdict>) | undefined): Promise<Verdict> {
  if (verdict.outcome !== 'refused' || control === undefined) return verdict;
  const { outcome, detail: said } = await control();
  if (outcome === 'let-in') return verdict;
  return { outcome: 'unproved', detail: `made with the keys of now it is not let in either: ${said}` };
}

/** For one door: on the way to the last of a thousand it would run out. */
async function paperOf(
  { ports, wish, accountUid: uid }: Round,
  name: TestCredentialName,
  { signers, serviceAccount }: KeyRing,
): Promise<TestCredential | undefined> {
  if (name !== 'service-account')
    return createTestCertificate(name, { ...wish, ...ports }, signers[CA_OF[name]]);
  return uid === undefined
    ? undefined
    : { token: createServiceAccountToken(serviceAccount, { uid, nowMs: ports.nowMs() }) };
}

/** What was tried before there were generations: who asks for none knows no others. */
const FIRST: readonly TestCredentialName[] = [
  'etcd-client',
  'etcd-peer',
  'state-etcd-client',
  'state-etcd-peer',
  'kubernetes-user',
];

/** What must be let in where a paper is refused for its key alone. The others' keys are the same in all generations. */
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

const NOT_MADE: Verdict = { outcome: 'unproved', detail: 'no such paper could be made' };
const NOT_KEPT: Verdict = {
  outcome: 'unproved',
  detail: 'keys of that generation are not kept: they were replaced more than once',
};

async function refuseMember({ etcd }: RemovalProbePorts, nodeId: string, signal: AbortSignal): Promise<void> {
  if (!NODE_ID.test(nodeId))
    throw new RemovalProbeError(
      'removalprobe-request-invalid',
      `trying papers: ${JSON.stringify(nodeId.slice(0, 80))}`,
    );
  const key = records.node.key(nodeId);
  const entry = await etcd.get(key, { signal });
  if (entry !== undefined && isMemberState(records.node.decode(key, entry.value).state))
    throw new RemovalProbeError('removalprobe-is-member', `trying papers of ${nodeId}`);
}

function knockAt(
  { ports, keys, wish }: Round,
  door: Endpoint & { readonly path?: string },
  paper: TestCredential,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  const { path, server } = ENDPOINT_RULES[door.kind];
  const at = { path: path(wish.nodeId), ...door, serverCaPem: keys.believed(server) };
  if (door.kind !== 'curator') return probeHttps(at, paper, signal);
  if ('token' in paper) throw new TypeError('curators take no tokens');
  return probeCurator({ ...ports, ...at }, paper, signal);
}

/** A door that does not let in who belongs there: nothing is proved at it. */
async function whyShut(round: Round, door: Endpoint, signal: AbortSignal): Promise<Verdict | undefined> {
  const { path, ...pair } = round.files.genuine[door.kind];
  const genuine = await readPair(round.ports.files, pair);
  const answer = await knockAt(round, { ...door, path }, genuine, signal);
  if (answer.kind === 'status' && answer.status === 200) return undefined;
  const { detail: said } = judgeAnswer(door.kind, 'node', answer);
  return { outcome: 'unproved', detail: `who belongs there is not let in either: ${said}` };
}

/** From the first API server that tells: tokens name an account that is there. */
async function accountUidAt(
  round: Round,
  doors: readonly Endpoint[],
  signal: AbortSignal,
): Promise<string | undefined> {
  if (!round.wish.heldKeys || round.wish.generation === 0) return undefined;
  const genuine = await readPair(round.ports.files, round.files.genuine.kubelet);
  for (const door of doors.filter(({ kind }) => kind === 'api-server')) {
    const answer = await knockAt(round, { ...door, path: ACCOUNT_PATH }, genuine, signal);
    const uid = answer.kind === 'status' ? uidIn(answer.body) : undefined;
    if (uid !== undefined) return uid;
  }
  return undefined;
}

/** A few at a time: a cluster of a thousand kubelets is not to be stormed. The order stays. */
async function inTurns<T, R>(all: readonly T[], work: (each: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  const queue = all.entries();
  const worker = async (): Promise<void> => {
    for (const [index, each] of queue) results[index] = await work(each);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}
