import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { KubeClient, KubeError } from '../../../internal/kube/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { currentKubeAccess } from '../kubeconfig/renew-kubeconfig.ts';
import { ClusterError } from '../errors.ts';
import { readPart } from '../status/read-part.ts';
import { callCurator } from './call-curator.ts';
import { servingAccess } from './api-servers.ts';

/**
 * A node by its name or ID. The name comes from a curator and appears in messages, so it is reduced to one printable
 * line. @throws RemoteError `curator-node-unknown`
 */
export async function findNode(context: CommandContext, name: string): Promise<Node> {
  const { node } = await callCurator(context, ({ curator }) => curator.getNode({ node: name }));
  if (node === undefined) throw new Error(`curator sent no node ${JSON.stringify(name)}`);
  return { ...node, name: printable(node.name) };
}

/** Calls the Kubernetes API with the workspace's kubeconfig, at an API server that responds. */
export async function withKubernetes<T>(
  context: CommandContext,
  work: (client: KubeClient) => Promise<T>,
  /** "https://HOST:PORT" of the one API server to call. */
  at?: string,
): Promise<T> {
  const access =
    at === undefined ? await servingAccess(context) : { ...(await currentKubeAccess(context)), server: at };
  using client = new KubeClient(access, context.ports);
  try {
    return await work(client);
  } catch (error) {
    context.signal.throwIfAborted();
    throw (await quorumLossBehind(context, error)) ?? error;
  }
}

/** API servers stop when their etcd has no quorum: then the lost quorum is the error to show. */
async function quorumLossBehind(context: CommandContext, error: unknown): Promise<ClusterError | undefined> {
  if (!(error instanceof KubeError) || !['kube-unreachable', 'kube-failed'].includes(error.code))
    return undefined;
  const part = await readPart(context, () =>
    callCurator(context, ({ curator }) => curator.getClusterInfo({})),
  );
  if (part.ok || !part.codes.includes('cluster-quorum-lost')) return undefined;
  return new ClusterError('cluster-quorum-lost', part.error, { cause: error });
}
