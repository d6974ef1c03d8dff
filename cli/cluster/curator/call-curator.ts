import { randomUUID, type X509Certificate } from 'node:crypto';
import { OperatorApi } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { NodeStreams } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { formatDuration } from '../../../internal/clock/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import { verifyControlPlaneCertificate } from '../../../internal/pki/index.ts';
import {
  bindClient,
  RpcChannel,
  RpcError,
  tlsClientUpgrade,
  type BoundClient,
} from '../../../internal/rpc/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { ClusterError } from '../errors.ts';
import { readKnownCurators } from './known-curators.ts';
import { readCaller, type Caller } from './caller.ts';
import { followClusterCa } from './follow-ca.ts';
import type { WorkspaceCa } from './known-ca.ts';
import { keyOnlyCertificate, operatorCertificateAge, renewCertificate } from './operator-certificate.ts';

const ANSWER_MS = 10_000;
const RETRY_MS = 2_000;
/** Errors of a cluster in which no curator answers just now. */
const NO_ANSWER: readonly string[] = ['cluster-curator-unreachable', 'cluster-quorum-lost'];
/**
 * How many new CAs one call adopts. A workspace that was not used for long first adopts the CA whose replacement is in
 * progress, then its successor.
 */
const MAX_FOLLOWED_CAS = 2;

/** Clients of the contracts that a curator serves, on one connection. A unary call ends after 10 s unless it sets a limit. */
export interface CuratorClients {
  readonly curator: BoundClient<typeof Curator>;
  readonly operatorApi: BoundClient<typeof OperatorApi>;
  readonly nodeStreams: BoundClient<typeof NodeStreams>;
}

/**
 * The context for work that must continue once it has begun: while no curator answers, a call is repeated for a minute.
 * A call can miss its deadline under load, or while the cluster detects the loss of a member.
 */
export function withCuratorRetries(context: CommandContext): CommandContext {
  return { ...context, curatorRetryMs: 60_000 };
}

type Call<T> = (clients: CuratorClients) => Promise<T>;

/**
 * An idempotency key: a request that is repeated is executed once. Create it before `callCurator()`, which may repeat the
 * request at another curator if an answer is lost.
 */
export function newMutation(): { readonly idempotencyKey: string } {
  return { idempotencyKey: randomUUID() };
}

/**
 * Calls the first curator that responds: every curator with an etcd quorum serves every call. The program authenticates with
 * an operator certificate, which it renews when due, and accepts only a control plane of this cluster. While no curator answers, the
 * call is repeated for the time that the context sets, unless `only` asks for a certain one.
 * @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted`, `cluster-curator-unreachable`,
 * `cluster-quorum-lost`; RpcError and the curator's own codes from `run`
 */
export async function callCurator<T>(
  context: CommandContext,
  run: Call<T>,
  /** Calls only the curators at these endpoints ("HOST:PORT"); by default any curator of the cluster. */
  from: { readonly only?: readonly string[] } = {},
): Promise<T> {
  const { clock } = context.ports;
  const deadlineMs = clock.monotonicMs() + (from.only === undefined ? (context.curatorRetryMs ?? 0) : 0);
  for (let tries = 1; ; tries++) {
    try {
      return await callAny(context, run, from);
    } catch (error) {
      context.signal.throwIfAborted();
      const mayPass = error instanceof ClusterError && NO_ANSWER.includes(error.code);
      if (!mayPass || clock.monotonicMs() >= deadlineMs) throw error;
      if (tries === 1)
        context.host.warn('curator-retrying', retryingText(error, context.curatorRetryMs ?? 0));
      await clock.sleep(RETRY_MS, context.signal);
    }
  }
}

/** Members of etcd come and go in the work that is repeated, so a pause of seconds is not yet a fault. */
function retryingText({ code }: ClusterError, retryMs: number): string {
  const what =
    code === 'cluster-quorum-lost'
      ? 'etcd accepts no requests at the moment, as while its members elect a leader'
      : 'no control plane answers at the moment';
  return `${what}; trying again for up to ${formatDuration(retryMs)}`;
}

/** Calls each curator once at most. */
async function callAny<T>(
  context: CommandContext,
  run: Call<T>,
  from: { readonly only?: readonly string[] },
): Promise<T> {
  let caller = await readCaller(context);
  const known = await readKnownCurators(context.ports.files, caller.curatorsPath);
  const endpoints = from.only ?? [...new Set([...known, ...caller.curatorEndpoints])];
  let failures: readonly Failure[] = [];
  for (let follows = 0; follows <= MAX_FOLLOWED_CAS; follows++) {
    const outcome = await callFirst(context, { caller, endpoints }, run);
    if (outcome.kind === 'response') return outcome.value;
    failures = outcome.failures;
    const ca = await followFirst(context, caller, failures);
    if (ca === undefined) break;
    caller = { ...caller, ca, clusterCaPem: ca.trustedPem };
  }
  const count = (kind: Failure['kind']): number => failures.filter((each) => each.kind === kind).length;
  const cause = FAILURE_KINDS.flatMap((kind) => failures.filter((each) => each.kind === kind))[0]?.error;
  // If no endpoint belongs to this cluster, the verification error is more helpful than "unreachable".
  if (failures.length > 0 && count('untrusted') === failures.length) throw cause;
  const where = endpoints.join(', ') || 'no known endpoint';
  const cutOff = count('no-quorum');
  if (cutOff > 0 && from.only === undefined) {
    const text = `quorum lost: ${cutOff} of ${endpoints.length} curators respond and have no etcd quorum (${where})`;
    throw new ClusterError('cluster-quorum-lost', text, { cause });
  }
  throw new ClusterError('cluster-curator-unreachable', `calling curators at ${where}`, { cause });
}

/** Calls the endpoints one after the other until one of them responds. */
async function callFirst<T>(
  context: CommandContext,
  { caller, endpoints }: { readonly caller: Caller; readonly endpoints: readonly string[] },
  run: Call<T>,
): Promise<
  | { readonly kind: 'response'; readonly value: T }
  | { readonly kind: 'none'; readonly failures: readonly Failure[] }
> {
  const failures: Failure[] = [];
  for (const endpoint of endpoints) {
    const outcome = await callWithRenewal(context, { caller, endpoint }, run);
    if (outcome.kind === 'response') return outcome;
    failures.push({ ...outcome, endpoint });
  }
  return { kind: 'none', failures };
}

/** Adopts the new CA of the cluster from the first curator that proves one. */
async function followFirst(
  context: CommandContext,
  caller: Caller,
  failures: readonly Failure[],
): Promise<WorkspaceCa | undefined> {
  const untrusted = failures.filter(({ kind }) => kind === 'untrusted');
  if (untrusted.length > 0 && caller.ownerKeys.length === 0)
    context.host.warn(
      'cluster-owners-unknown',
      'A curator shows a certificate that the CA of the grant has not issued. If an owner has replaced that CA, ask an owner for a new grant (`cluster operator add`): the present grant names no owner whose signature could prove the new CA.',
    );
  for (const { endpoint } of untrusted) {
    try {
      const ca = await followClusterCa(context, caller, endpoint);
      if (ca !== undefined) return ca;
    } catch (error) {
      context.signal.throwIfAborted();
      // An unknown server may respond at this address, so its errors are ignored. The error of the original call is
      // reported.
      if (!(error instanceof CodedError)) throw error;
    }
  }
  return undefined;
}

interface Target {
  readonly caller: Caller;
  readonly endpoint: string;
}

/**
 * Renews the certificate first when it is due. If renewal fails, a certificate that is still valid is used.
 * An expired certificate must be renewed; for this curators require only the key.
 */
async function callWithRenewal<T>(
  context: CommandContext,
  target: Target,
  run: Call<T>,
): Promise<Outcome<T>> {
  const { caller } = target;
  const nowMs = context.ports.clock.nowMs();
  const age = operatorCertificateAge(caller, nowMs);
  let { certPem } = caller;
  if (age !== 'valid') {
    const renew: Call<string> = ({ operatorApi }) =>
      renewCertificate(context, caller, async (certificateRequest) => {
        const { certificatePem } = await operatorApi.renewOperator({ certificateRequest });
        return certificatePem;
      });
    const keyOnly = await keyOnlyCertificate(caller, nowMs);
    try {
      const renewed = await callOnce(context, { ...target, certPem: keyOnly }, renew);
      if (renewed.kind !== 'response') return renewed; // this curator did not respond to the renewal, so the actual call to it would fail too
      certPem = renewed.value;
    } catch (error) {
      context.signal.throwIfAborted();
      if (age === 'expired') throw error;
    }
  }
  return callOnce(context, { ...target, certPem }, run);
}

/**
 * Makes one call over one connection. Throws an error only if every curator would return the same error; other errors
 * are returned.
 */
async function callOnce<T>(
  context: CommandContext,
  { caller, endpoint, certPem }: Target & { readonly certPem: string },
  run: Call<T>,
): Promise<Outcome<T>> {
  const { clusterId, clusterCaPem: caPem, keyPem } = caller;
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
    const limits = { signal: context.signal, timeoutMs: ANSWER_MS };
    const clients = {
      curator: bindClient(Curator, channel, limits),
      operatorApi: bindClient(OperatorApi, channel, limits),
      nodeStreams: bindClient(NodeStreams, channel, limits),
    };
    return { kind: 'response', value: await run(clients) };
  } catch (error) {
    context.signal.throwIfAborted();
    const kind = failureKind(error, channel.connectError);
    if (kind === undefined) throw error;
    return { kind, error };
  }
}

/** Failures after which the next curator is called, the most informative one first. */
const FAILURE_KINDS = ['no-quorum', 'untrusted', 'unreachable'] as const;

interface Failure {
  readonly kind: (typeof FAILURE_KINDS)[number];
  readonly endpoint: string;
  readonly error: unknown;
}

type Outcome<T> = Omit<Failure, 'endpoint'> | { readonly kind: 'response'; readonly value: T };

/** undefined for an error that every curator would return. */
function failureKind(error: unknown, connectError: unknown): Failure['kind'] | undefined {
  // This curator is cut off from the others, or there is no quorum.
  if (error instanceof CodedError && error.retryable && String(error.code).startsWith('etcd-'))
    return 'no-quorum';
  if (error instanceof RpcError && error.retryable) return 'unreachable';
  // Another machine may have the address of a former control plane.
  return error === connectError ? 'untrusted' : undefined;
}
