import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { KubeClient } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { currentKubeAccess } from '../kubeconfig/renew-kubeconfig.ts';
import { callCurator } from './call-curator.ts';
import { reachableAccess, knownApiServers } from './api-servers.ts';

/** A node by its name or id. @throws RemoteError `curator-node-unknown` */
export async function findNode(context: CommandContext, name: string): Promise<Node> {
  const { node } = await callCurator(context, ({ curator }) => curator.getNode({ node: name }));
  if (node === undefined) throw new Error(`curator sent no node ${JSON.stringify(name)}`);
  return node;
}

/** Calls the Kubernetes API with the workspace's kubeconfig, at an API server that responds. */
export async function withKubernetes<T>(
  context: CommandContext,
  work: (client: KubeClient) => Promise<T>,
  /** "https://HOST:PORT" of the one API server to call. */
  at?: string,
): Promise<T> {
  const access = await currentKubeAccess(context);
  using client = new KubeClient(
    at === undefined ? await reachableAccess(access, knownApiServers(context)) : { ...access, server: at },
    context.ports,
  );
  return await work(client);
}
