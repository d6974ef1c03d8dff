import { randomUUID } from 'node:crypto';
import type { Node } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { KubeClient } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { currentKubeAccess } from '../kubeconfig/renew-kubeconfig.ts';
import { callCurator } from './call-curator.ts';
import { reachableAccess, knownApiServers } from './api-servers.ts';

/** A node by its name or id. @throws RemoteError `curator-node-unknown` */
export async function findNode(context: CommandContext, name: string): Promise<Node> {
  const { node } = await callCurator(context, (curator, call) => curator.getNode({ node: name }, call));
  if (node === undefined) throw new Error(`asking for node ${name}: the curator answers without one`);
  return node;
}

/** The Kubernetes API with the workspace's kubeconfig, wherever it is served now. */
export async function withKubernetes<T>(
  context: CommandContext,
  work: (client: KubeClient) => Promise<T>,
  /** "https://HOST:PORT" of one API server, to know what this one says. */
  at?: string,
): Promise<T> {
  const access = await currentKubeAccess(context);
  using client = new KubeClient(
    at === undefined ? await reachableAccess(access, knownApiServers(context)) : { ...access, server: at },
    context.ports,
  );
  return await work(client);
}

/**
 * However often the request is repeated on the way, it happens once. To be made before `ask`, which may ask one curator
 * after the other: a key of its own for each would make a second request of the first one, whose answer was lost.
 */
export function newMutation(): { readonly idempotencyKey: string } {
  return { idempotencyKey: randomUUID() };
}
