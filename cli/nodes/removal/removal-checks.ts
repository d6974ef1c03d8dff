import { CodedError, describeError } from '../../../internal/errors/index.ts';
import { listNodes, reviewKubelet } from '../../../internal/kube/index.ts';
import { counted, printable } from '../../../internal/printable/index.ts';
import {
  NodeHealth,
  type DirectoryEntry,
  type EtcdStatus,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../../app/command.ts';
import { apiServerUrlOf, callCurator, kubernetesEtcdOf, withKubernetes } from '../../cluster/index.ts';
import type { RemovalCheck } from '../../keys/index.ts';

/** Whether the check has passed, and what was found. */
type Finding = readonly [ok: boolean, actual: string];

/**
 * Checks for every part of the cluster whether it still knows the node. If a part does not respond, its check
 * fails.
 */
export async function checkRemoved(context: CommandContext, node: Node): Promise<readonly RemovalCheck[]> {
  const { nodeId, name } = node;
  const { directory, nodes, etcd } = await callCurator(context, async ({ curator }) => {
    const [info, list] = await Promise.all([curator.getClusterInfo({}), curator.listNodes({})]);
    return { ...info, nodes: list.nodes };
  });
  const { reachable, unreachable } = controlPlanesFrom(directory, nodes);
  const isListed = directory.some((entry) => entry.nodeId === nodeId);
  return [
    ...(await Promise.all([
      ...reachable.flatMap((curator) => checksAt(context, node, curator)),
      check(context, 'Kubernetes', () =>
        withKubernetes(context, async (client): Promise<Finding> => {
          const objects = await listNodes(client, context.signal);
          return objects.some(({ metadata }) => metadata.name === name)
            ? [false, 'the kubelet of the removed node has registered it again']
            : [true, 'Node not found'];
        }),
      ),
    ])),
    checkFrom('directory of control planes', isListed ? [false, 'still listed'] : [true, 'not listed']),
    checkFrom('state etcd', membershipIn(etcd, nodeId)),
    checkFrom('Kubernetes etcd', membershipIn(kubernetesEtcdOf(nodes), nodeId)),
    ...unreachable.map((other) =>
      checkFrom(`control plane ${printable(other)}`, [
        true,
        'not responding, not checked: it reads the records before it serves anybody',
      ]),
    ),
  ];
}

/**
 * Checks one control plane. Each control plane decides by itself whether it accepts the node. `curator`: its
 * "HOST:PORT".
 */
function checksAt(context: CommandContext, node: Node, curator: string): readonly Promise<RemovalCheck>[] {
  const { nodeId } = node;
  const { signal } = context;
  const only = { only: [curator] };
  const server = apiServerUrlOf(curator);
  return [
    check(context, `record at ${curator}`, () =>
      unknownNode(
        () => callCurator(context, (clients) => clients.curator.getNode({ node: nodeId }), only),
        [false, 'still exists'],
        [true, 'not found: its key is refused'],
      ),
    ),
    check(context, `stream to ${curator}`, () =>
      unknownNode(
        () => callCurator(context, ({ nodeStreams }) => nodeStreams.getMetrics({ node: nodeId }), only),
        [false, 'still open'],
        [true, 'closed'],
      ),
    ),
    check(context, `kubelet at ${server}`, () =>
      withKubernetes(
        context,
        async (client): Promise<Finding> => {
          const { denied, reason } = await reviewKubelet(client, node, signal);
          return denied ? [true, `denied: ${printable(reason)}`] : [false, 'not denied'];
        },
        server,
      ),
    ),
  ];
}

/** Returns `gone` if the curator responds that it does not know the node, and `found` if it knows it. */
async function unknownNode(call: () => Promise<unknown>, found: Finding, gone: Finding): Promise<Finding> {
  try {
    await call();
    return found;
  } catch (error) {
    if (!(error instanceof CodedError) || error.code !== 'curator-node-unknown') throw error;
    return gone;
  }
}

function membershipIn(etcd: EtcdStatus | undefined, nodeId: string): Finding {
  const members = (etcd?.members ?? []).map(({ name }) => name);
  if (members.length === 0) return [false, 'members unknown'];
  return members.includes(nodeId)
    ? [false, 'still a member']
    : [true, `${counted(members.length, 'member')}, not including it`];
}

/**
 * Control planes in the directory: "HOST:PORT" of the curators that respond, and names of the nodes whose
 * heartbeat timed out (several may be lost, and are removed one after the other). A node that has just joined
 * counts as responding. Pure.
 */
export function controlPlanesFrom(
  directory: readonly Pick<DirectoryEntry, 'nodeId' | 'name' | 'curatorEndpoint'>[],
  nodes: readonly Pick<Node, 'nodeId' | 'health'>[],
) {
  const gone = new Set(
    nodes.filter(({ health }) => health === NodeHealth.TIMEOUT).map(({ nodeId }) => nodeId),
  );
  const named = directory.filter(({ curatorEndpoint }) => curatorEndpoint !== '');
  return {
    reachable: named.filter(({ nodeId }) => !gone.has(nodeId)).map(({ curatorEndpoint }) => curatorEndpoint),
    unreachable: named.filter(({ nodeId }) => gone.has(nodeId)).map(({ name }) => name),
  };
}

function checkFrom(what: string, [ok, actual]: Finding): RemovalCheck {
  return { what, ok, actual };
}

async function check(
  { signal }: CommandContext,
  what: string,
  look: () => Promise<Finding>,
): Promise<RemovalCheck> {
  try {
    return checkFrom(what, await look());
  } catch (error) {
    signal.throwIfAborted();
    return checkFrom(what, [false, `no answer: ${describeError(error)}`]);
  }
}
