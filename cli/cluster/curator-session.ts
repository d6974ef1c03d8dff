import type { DescService } from '@bufbuild/protobuf';
import type { X509Certificate } from 'node:crypto';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { CodedError } from '../../internal/errors/index.ts';
import { verifyNode } from '../../internal/pki/index.ts';
import {
  createClient,
  RpcChannel,
  RpcError,
  tlsClientUpgrade,
  type Client,
} from '../../internal/rpc/index.ts';
import type { CommandContext } from '../app/command.ts';
import { ClusterError } from './errors.ts';
import { readKnownCurators } from './known-curators.ts';
import { readMember } from './member.ts';

const ANSWER_MS = 10_000;

export type CuratorClient = Client<typeof Curator>;

/** A curator that answers, with every contract that it serves. */
export type CuratorServices = <S extends DescService>(service: S) => Client<S>;

/** What a call needs; for a stream take the signal alone. */
export interface AskOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/**
 * Asks the first curator that serves: every one that has its etcd serves every call. Our proof is an operator's certificate, theirs
 * a node certificate of this cluster.
 * @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted`, `cluster-curator-unreachable`
 */
export async function askCurator<T>(
  context: CommandContext,
  /** These and no others, to know what each of them says. */
  from: { readonly only?: readonly string[] },
  ask: (curator: CuratorClient, options: AskOptions, services: CuratorServices) => Promise<T>,
): Promise<T> {
  const member = await readMember(context);
  const { clusterId, clusterCaPem: caPem, certPem, keyPem } = member;
  const trust = { caPem, clusterId, nowMs: () => context.ports.clock.nowMs() };
  const known = await readKnownCurators(context.ports.files, member.curatorsPath);
  const endpoints = from.only ?? [...new Set([...known, ...member.curatorEndpoints])];
  const failures: { readonly error: unknown; readonly tells: Telling }[] = [];
  for (const endpoint of endpoints) {
    using channel = new RpcChannel({
      endpoint,
      upgrade: tlsClientUpgrade({
        identity: { certPem, keyPem },
        accept: (certificate: X509Certificate) => verifyNode(certificate, trust),
      }),
    });
    try {
      const options = { signal: context.signal, timeoutMs: ANSWER_MS };
      return await ask(createClient(Curator, channel), options, (service) => createClient(service, channel));
    } catch (error) {
      context.signal.throwIfAborted();
      const tells = tellingOf(error, channel.connectError);
      if (tells === undefined) throw error;
      failures.push({ error, tells });
    }
  }
  const [most] = failures.toSorted((one, other) => other.tells - one.tells);
  // Not one of them is of this cluster: that is no matter of reaching them.
  if (most !== undefined && failures.every(({ tells }) => tells === Telling.STRANGER)) throw most.error;
  throw new ClusterError(
    'cluster-curator-unreachable',
    `asking the curators at ${endpoints.join(', ') || 'no endpoint'}`,
    { cause: most?.error },
  );
}

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
