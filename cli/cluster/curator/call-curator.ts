import type { DescService } from '@bufbuild/protobuf';
import type { X509Certificate } from 'node:crypto';
import { OperatorApi } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { CodedError } from '../../../internal/errors/index.ts';
import { verifyControlPlaneCertificate } from '../../../internal/pki/index.ts';
import {
  createClient,
  RpcChannel,
  RpcError,
  tlsClientUpgrade,
  type Client,
} from '../../../internal/rpc/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';
import { readKnownCurators } from './known-curators.ts';
import { readCaller, type Caller } from './caller.ts';
import { certificateAge, keyOnlyCertificate, renewCertificate } from './operator-certificate.ts';

const ANSWER_MS = 10_000;

export type CuratorClient = Client<typeof Curator>;

/** A curator that answers, with every contract that it serves. */
export type CuratorClients = <S extends DescService>(service: S) => Client<S>;

/** What a call needs; for a stream take the signal alone. */
export interface CuratorCallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/**
 * Asks the first curator that serves: every one that has its etcd serves every call. Our proof is an operator's certificate, theirs
 * a node certificate of this cluster. Ours is renewed on the way.
 * @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted`, `cluster-curator-unreachable`
 */
export async function callCurator<T>(
  context: CommandContext,
  ask: Ask<T>,
  /** These curators and no others, to know what each of them answers. */
  from: { readonly only?: readonly string[] } = {},
): Promise<T> {
  const member = await readCaller(context);
  const known = await readKnownCurators(context.ports.files, member.curatorsPath);
  const endpoints = from.only ?? [...new Set([...known, ...member.curatorEndpoints])];
  const failures: Failure[] = [];
  for (const endpoint of endpoints) {
    const outcome = await askMember(context, { member, endpoint }, ask);
    if (outcome.kind === 'answer') return outcome.value;
    failures.push(outcome);
  }
  const [most] = failures.toSorted((one, other) => other.tells - one.tells);
  // Not one of them is of this cluster: that is no matter of reaching them.
  if (most !== undefined && failures.every(({ tells }) => tells === Telling.STRANGER)) throw most.error;
  const cutOff = failures.filter(({ tells }) => tells === Telling.CUT_OFF).length;
  if (cutOff > 0 && from.only === undefined)
    throw new ClusterError(
      'cluster-quorum-lost',
      `quorum lost: ${cutOff} of ${endpoints.length} control planes respond (${endpoints.join(', ')})`,
      { cause: most?.error },
    );
  throw new ClusterError(
    'cluster-curator-unreachable',
    `asking the curators at ${endpoints.join(', ') || 'no endpoint'}`,
    { cause: most?.error },
  );
}

type Ask<T> = (curator: CuratorClient, options: CuratorCallOptions, services: CuratorClients) => Promise<T>;

interface At {
  readonly member: Caller;
  readonly endpoint: string;
}

/**
 * With a certificate that was renewed on the way if it is due: past two thirds of its life the old one will do where that
 * fails; one that has run out has to be renewed, which takes no more than the key.
 */
async function askMember<T>(context: CommandContext, at: At, ask: Ask<T>): Promise<Outcome<T>> {
  const { member } = at;
  const nowMs = context.ports.clock.nowMs();
  const age = certificateAge(member.certPem, nowMs);
  if (age === 'good') return askAt(context, { ...at, certPem: member.certPem }, ask);
  const bare = await keyOnlyCertificate(member, nowMs);
  const renew: Ask<string> = (_, call, of) =>
    renewCertificate(context, member, async (certificateRequest) => {
      const { certificatePem } = await of(OperatorApi).renewOperator({ certificateRequest }, call);
      return certificatePem;
    });
  let { certPem } = member;
  try {
    const renewed = await askAt(context, { ...at, certPem: bare }, renew);
    if (renewed.kind === 'failure') return renewed; // who is not there answers nobody
    certPem = renewed.value;
  } catch (error) {
    context.signal.throwIfAborted();
    if (age === 'over') throw error;
  }
  return askAt(context, { ...at, certPem }, ask);
}

/** One call over one connection. Throws what every curator would say. */
async function askAt<T>(
  context: CommandContext,
  { member, endpoint, certPem }: At & { readonly certPem: string },
  ask: Ask<T>,
): Promise<Outcome<T>> {
  const { clusterId, clusterCaPem: caPem, keyPem } = member;
  const trust = { caPem, clusterId, nowMs: () => context.ports.clock.nowMs() };
  using channel = new RpcChannel({
    endpoint,
    upgrade: tlsClientUpgrade({
      clock: context.ports.clock,
      identity: { certPem, keyPem },
      accept: (certificate: X509Certificate) => verifyControlPlaneCertificate(certificate, trust),
    }),
  });
  try {
    const options = { signal: context.signal, timeoutMs: ANSWER_MS };
    const of: CuratorClients = (service) => createClient(service, channel);
    return { kind: 'answer', value: await ask(createClient(Curator, channel), options, of) };
  } catch (error) {
    context.signal.throwIfAborted();
    const tells = tellingOf(error, channel.connectError);
    if (tells === undefined) throw error;
    return { kind: 'failure', error, tells };
  }
}

interface Failure {
  readonly kind: 'failure';
  readonly error: unknown;
  readonly tells: Telling;
}

type Outcome<T> = Failure | { readonly kind: 'answer'; readonly value: T };

/** How much a failure tells that only one curator has, and another one may not. */
const Telling = { SILENCE: 0, STRANGER: 1, CUT_OFF: 2 } as const;
type Telling = (typeof Telling)[keyof typeof Telling];

/** undefined: what one curator says, all of them say. */
function tellingOf(error: unknown, connectError: unknown): Telling | undefined {
  if (isEtcdSilent(error)) return Telling.CUT_OFF;
  if (error instanceof RpcError && error.retryable) return Telling.SILENCE;
  // The address of a control plane that is gone may be another machine's by now.
  return error === connectError ? Telling.STRANGER : undefined;
}

/** From a curator that is cut off from the others, or has no quorum: another one may have it. */
function isEtcdSilent(error: unknown): boolean {
  return error instanceof CodedError && error.retryable && String(error.code).startsWith('etcd-');
}
