import { verify, X509Certificate } from 'node:crypto';
import { decryptWithTpm, encodeEnrolmentRequest } from '../../../internal/attestation/enrolment/index.ts';
import type { PinnedCluster } from '../../../internal/config/index.ts';
import { diskShareAnswer, encodeDiskShareStatement } from '../../../internal/crypto/index.ts';
import { formatEndpoint, PORTS } from '../../../internal/endpoint/index.ts';
import { certificatesIn } from '../../../internal/pki/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { SHARE_BYTES, type ShareSource } from '../../../internal/statedisk/index.ts';
import type { DiskShare } from '../../../joinservice/joinproto/gen/join_pb.js';
import type { MachineEvidence } from '../../attest/index.ts';
import type { AskShare, ProbeShare, ShareQuestion } from '../../disk/index.ts';
import {
  discover,
  JoinClientError,
  JoinSession,
  openFirst,
  type ClusterTrust,
  type EndpointSource,
  type KnownCa,
  type SessionPorts,
} from '../../joinclient/index.ts';
import { provedRefusalOf, shareProblemOf } from './share-problem.ts';

const MAX_PART_BYTES = 4096;

/** Ports (injected dependencies) of a machine that asks for the share of its state disk. */
interface DiskSharePorts extends SessionPorts {
  readonly evidence: SessionPorts['evidence'] & Pick<MachineEvidence, 'forDiskShare'>;
}

/** The clusters that this machine trusts, and endpoints beside those in the record of the disk. */
interface DiskShareOptions {
  readonly sources: readonly EndpointSource[];
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  readonly pinned: PinnedCluster | undefined;
  /** The cluster CA that a running member knows; while the disk is closed, that in its record counts. */
  readonly readKnownCa?: () => Promise<KnownCa>;
}

/**
 * Asks each known join service of the cluster once for the share of a state disk, with fresh evidence, until one gives the right one. The answer is
 * signed by the cluster CA, so that no join service chooses the share.
 * @throws DiskError `disk-share-wrong`, `disk-share-refused` if a signer or a join service refuses, `disk-share-invalid`, `disk-share-awaited` if none answers
 */
export function createAskShare(ports: DiskSharePorts, options: DiskShareOptions): AskShare {
  return async (question, signal) => {
    const take = async (given: DiskShare, session: Uint8Array, attempt: AbortSignal) => {
      const share = await decrypt(given, session, (challenge, of) =>
        ports.evidence.answerChallenge(challenge, of, attempt),
      );
      await question.test(share, attempt);
      return share;
    };
    const { taken: share, nodeId, endpoint } = await askEach({ ports, options, question, take }, signal);
    return { share, nodeId, endpoint };
  };
}

/** Asks as `createAskShare()`, and ends with an answer that the cluster CA has signed. No share gets into the memory of this program. */
export function createProbeShare(ports: DiskSharePorts, options: DiskShareOptions): ProbeShare {
  return async (question, signal) => {
    await askEach({ ports, options, question, take: () => Promise.resolve() }, signal);
  };
}

interface Call<T> {
  readonly ports: DiskSharePorts;
  readonly options: DiskShareOptions;
  readonly question: Omit<ShareQuestion, 'test'>;
  /** Takes an answer that the cluster CA has signed, in this session. */
  readonly take: (given: DiskShare, session: Uint8Array, signal: AbortSignal) => Promise<T>;
}

/** The first answer that was taken, and the control plane that gave it. */
interface Taken<T> {
  readonly taken: T;
  readonly nodeId: string;
  readonly endpoint: string;
}

async function askEach<T>(call: Call<T>, signal: AbortSignal): Promise<Taken<T>> {
  const { ports, options, question } = call;
  const { clock } = ports;
  const endpoints = await endpointsFor(question, { ...options, clock }, signal);
  const failures = new Map<string, unknown>();
  const onFailure = (endpoint: string, error: unknown): void => void failures.set(endpoint, error);
  const ask = (endpoint: string, attempt: AbortSignal) => askOver(endpoint, call, attempt);
  try {
    using answer = await openFirst(endpoints, ask, { clock, onFailure, signal });
    const { taken, nodeId, endpoint } = answer;
    return { taken, nodeId, endpoint };
  } catch (cause) {
    signal.throwIfAborted();
    // In the order of the endpoints: that of arrival differs each time, and with it what the machine would show.
    const ordered = endpoints.filter((endpoint) => failures.has(endpoint));
    throw shareProblemOf(new Map(ordered.map((endpoint) => [endpoint, failures.get(endpoint)])), cause);
  }
}

/** First those that gave the share before, then those that the cluster names, then those that the machine was provisioned with. */
async function endpointsFor(
  { source, among, except }: Call<unknown>['question'],
  { sources, clock }: Pick<DiskShareOptions, 'sources'> & Pick<DiskSharePorts, 'clock'>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { controlPlanes, endpoints, proven } = source;
  const others = controlPlanes.filter(({ nodeId }) => nodeId !== except);
  const named = [...proven, ...others.map(({ host }) => formatEndpoint(host, PORTS.join)), ...endpoints];
  const provisioned = among === 'all' ? (await discover(sources, clock, signal)).endpoints : [];
  return [...new Set([...named, ...provisioned])];
}

async function askOver<T>(
  endpoint: string,
  { ports, options, question, take }: Call<T>,
  signal: AbortSignal,
): Promise<Disposable & Taken<T>> {
  const { evidence, clock } = ports;
  const { uuid, source } = question;
  const trust = await trustFrom(source, options, endpoint);
  using open = await JoinSession.open(endpoint, ports, { trust, signal });
  const { session, cluster } = open;
  const { serverId: nodeId } = cluster;
  if (nodeId === question.except)
    throw new JoinClientError('joinclient-session-closed', `${endpoint} was asked before`);
  const request = await evidence.readEnrolment(signal);
  if (request === undefined) throw new TypeError('only a machine with a TPM asks for the share of its disk');
  const enrolment = encodeEnrolmentRequest(request);
  const timeMs = Math.max(0, clock.nowMs() - cluster.clockOffsetMs);
  const { clusterId } = cluster;
  const statement = encodeDiskShareStatement({ clusterId, uuid, enrolment, session, timeMs });
  const shown = await evidence.forDiskShare(statement, signal);
  const asked = { uuid, enrolment, timeMs: BigInt(timeMs), evidence: [{ ...shown }] };
  const given = await open.requestDiskShare(asked, signal).catch((error: unknown) => {
    throw provedRefusalOf(endpoint, error);
  });
  verifyAnswer(given, statement, cluster.acceptedCaPem);
  const taken = await take(given, session, signal);
  return { taken, nodeId, endpoint, [Symbol.dispose]: () => undefined };
}

/** As a member trusts: the node that the record names at this endpoint, and at others any control plane. */
async function trustFrom(
  source: ShareSource,
  { ownerKeys, pinned, readKnownCa }: DiskShareOptions,
  endpoint: string,
): Promise<ClusterTrust> {
  const { clusterId, clusterCaPem, caGeneration, floors, controlPlanes } = source;
  const here = controlPlanes.filter(({ host }) => formatEndpoint(host, PORTS.join) === endpoint);
  return {
    ...{ ownerKeys, pinned, boundTo: clusterId },
    ca: (await readKnownCa?.()) ?? { trustedPem: clusterCaPem, generation: caGeneration, floors },
    server: { nodeIds: here.map(({ nodeId }) => nodeId) },
  };
}

/** @throws JoinClientError `joinclient-share-invalid` */
function verifyAnswer(given: DiskShare, statement: Uint8Array, clusterCaPem: string): void {
  const { challenge, nonce, ciphertext, signature } = given;
  if ([challenge, nonce, ciphertext, signature].some(({ length }) => length > MAX_PART_BYTES))
    throw invalid('too long');
  const answer = diskShareAnswer(statement, { challenge, nonce, ciphertext });
  const isSigned = certificatesIn(clusterCaPem).some((pem) => {
    const key = { key: new X509Certificate(pem).publicKey, dsaEncoding: 'ieee-p1363' } as const;
    return verify('sha256', answer, key, signature);
  });
  if (!isSigned) throw invalid('not signed by the cluster CA');
}

async function decrypt(
  { challenge, nonce, ciphertext }: DiskShare,
  session: Uint8Array,
  answer: Parameters<typeof decryptWithTpm>[2],
): Promise<Secret<Uint8Array>> {
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const box = { challenge: base64(challenge), nonce: base64(nonce), ciphertext: base64(ciphertext) };
  const share = await decryptWithTpm(box, session, answer).catch((cause: unknown) => {
    throw invalid('not for this TPM', cause);
  });
  if (share.reveal().length !== SHARE_BYTES) throw invalid(`${share.reveal().length} bytes`);
  return share;
}

function invalid(why: string, cause?: unknown): JoinClientError {
  return new JoinClientError('joinclient-share-invalid', `reading the share of the state disk: ${why}`, {
    cause,
  });
}
