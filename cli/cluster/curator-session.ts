import type { DescService } from '@bufbuild/protobuf';
import type { X509Certificate } from 'node:crypto';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { verifyNode } from '../../internal/pki/index.ts';
import {
  createClient,
  RpcChannel,
  RpcError,
  tlsClientUpgrade,
  type Client,
} from '../../internal/rpc/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readOwnerKey, type StateFile, type WorkspaceLayout } from '../workspace/index.ts';
import { ClusterError } from './errors.ts';
import { readKnownCurators } from './known-curators.ts';

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
 * Asks the first curator that answers: every one of them serves every call. Our proof is the owner certificate, theirs a
 * node certificate of this cluster.
 * @throws ClusterError `cluster-not-initialized`, `cluster-curator-unreachable`
 */
export async function askCurator<T>(
  context: CommandContext,
  from: {
    readonly layout: WorkspaceLayout;
    readonly state: StateFile;
    /** These and no others, to know what each of them says. */
    readonly only?: readonly string[];
  },
  ask: (curator: CuratorClient, options: AskOptions, services: CuratorServices) => Promise<T>,
): Promise<T> {
  const result = from.state.value.init?.result;
  if (result === undefined)
    throw new ClusterError('cluster-not-initialized', `looking at ${from.layout.root}: no init has finished`);
  const { keyPem } = await readOwnerKey(context.ports.files, from.layout);
  const trust = {
    caPem: result.clusterCaPem,
    clusterId: result.clusterId,
    nowMs: () => context.ports.clock.nowMs(),
  };
  const known = await readKnownCurators(context.ports.files, from.layout);
  const endpoints = from.only ?? [...new Set([...known, ...result.curatorEndpoints])];
  let last: unknown;
  for (const endpoint of endpoints) {
    using channel = new RpcChannel({
      endpoint,
      upgrade: tlsClientUpgrade({
        identity: { certPem: result.ownerCertPem, keyPem },
        accept: (certificate: X509Certificate) => verifyNode(certificate, trust),
      }),
    });
    try {
      const options = { signal: context.signal, timeoutMs: ANSWER_MS };
      return await ask(createClient(Curator, channel), options, (service) => createClient(service, channel));
    } catch (error) {
      context.signal.throwIfAborted();
      if (!(error instanceof RpcError) || !error.retryable) throw error;
      last = error;
    }
  }
  throw new ClusterError(
    'cluster-curator-unreachable',
    `asking the curators at ${endpoints.join(', ') || 'no endpoint'}`,
    { cause: last },
  );
}
