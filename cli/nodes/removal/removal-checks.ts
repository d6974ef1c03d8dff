import {
  Curator,
  NodeHealth,
  type DirectoryEntry,
  type EtcdStatus,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { NodeStreams } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { CodedError, describeError } from '../../../internal/errors/index.ts';
import { listNodes, reviewKubelet } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { printable } from '../../../internal/printable/index.ts';
import type { RemovalCheck } from '../../keys/index.ts';
import { kubernetesEtcdOf, apiServerUrlOf, callCurator, withKubernetes } from '../../cluster/index.ts';

/** Each asked anew; an answer that could not be had proves nothing. */
export async function checkRemoved(context: CommandContext, node: Node): Promise<readonly RemovalCheck[]> {
  const { nodeId, name } = node;
  const { reachable: live, unreachable: silent } = await controlPlanesNow(context);
  const notAsked = silent.map((other) => ({
    what: `control plane ${printable(other)}`,
    ok: true,
    actual: 'is silent and was not asked: it lets nobody in before it has read the records',
  }));
  const proofs = await Promise.all([
    ...live.flatMap((curator) => proofsAt(context, node, curator)),
    proof(context, 'the directory of control planes', async () => {
      const { directory } = await callCurator(context, (_, call, of) => of(Curator).getClusterInfo({}, call));
      const isThere = directory.some((entry) => entry.nodeId === nodeId);
      return isThere ? [false, 'names it'] : [true, 'does not name it'];
    }),
    proof(context, 'the state etcd', async () => {
      const { etcd } = await callCurator(context, (_, call, of) => of(Curator).getClusterInfo({}, call));
      return isNoMember(nodeId, etcd);
    }),
    proof(context, 'the Kubernetes etcd', async () => {
      const { nodes } = await callCurator(context, (curator, call) => curator.listNodes({}, call));
      return isNoMember(nodeId, kubernetesEtcdOf(nodes));
    }),
    proof(context, 'Kubernetes', () =>
      withKubernetes(context, async (client): Promise<readonly [boolean, string]> => {
        const nodes = await listNodes(client, context.signal);
        const isThere = nodes.some(({ metadata }) => metadata.name === name);
        return isThere ? [false, 'its kubelet has registered it again'] : [true, 'has no such node'];
      }),
    ),
  ]);
  return [...proofs, ...notAsked];
}

/** What one control plane says, for each decides by itself. */
function proofsAt(context: CommandContext, node: Node, curator: string): readonly Promise<RemovalCheck>[] {
  const { nodeId } = node;
  const refused = async (
    look: () => Promise<unknown>,
    found: string,
    gone: string,
  ): Promise<readonly [boolean, string]> => {
    try {
      await look();
      return [false, found];
    } catch (error) {
      if (!(error instanceof CodedError) || error.code !== 'curator-node-unknown') throw error;
      return [true, gone];
    }
  };
  const server = apiServerUrlOf(curator);
  return [
    proof(context, `its record at ${curator}`, () =>
      refused(
        () =>
          callCurator(context, (client, call) => client.getNode({ node: nodeId }, call), { only: [curator] }),
        'is there',
        'unknown: its key is refused from now on',
      ),
    ),
    proof(context, `its stream to ${curator}`, () => {
      const call = { signal: context.signal, timeoutMs: 10_000 };
      return refused(
        () =>
          callCurator(context, (_, _call, of) => of(NodeStreams).getMetrics({ node: nodeId }, call), {
            only: [curator],
          }),
        'still answers',
        'cut',
      );
    }),
    proof(context, `its kubelet at ${server}`, () =>
      withKubernetes(
        context,
        async (client): Promise<readonly [boolean, string]> => {
          const { denied, reason } = await reviewKubelet(client, node, context.signal);
          return denied ? [true, `denied: ${printable(reason)}`] : [false, 'is not denied'];
        },
        server,
      ),
    ),
  ];
}

function isNoMember(nodeId: string, etcd: EtcdStatus | undefined): readonly [boolean, string] {
  const members = (etcd?.members ?? []).map(({ name }) => name);
  if (members.length === 0) return [false, 'no member is known'];
  return members.includes(nodeId)
    ? [false, 'has it as a member']
    : [true, `${members.length} members, none is it`];
}

/** Each of them must refuse by itself. */
async function controlPlanesNow(context: CommandContext): Promise<ControlPlanes> {
  return callCurator(context, async (curator, call) => {
    const [{ directory }, { nodes }] = await Promise.all([
      curator.getClusterInfo({}, call),
      curator.listNodes({}, call),
    ]);
    return controlPlanesFrom(directory, nodes);
  });
}

export interface ControlPlanes {
  /** Curators that can be asked, "HOST:PORT". */
  readonly reachable: readonly string[];
  /** Names of those that have not beaten for so long that they count as gone: of several that are lost, one is removed after the other. */
  readonly unreachable: readonly string[];
}

export function controlPlanesFrom(
  directory: readonly Pick<DirectoryEntry, 'nodeId' | 'name' | 'curatorEndpoint'>[],
  nodes: readonly Pick<Node, 'nodeId' | 'health'>[],
): ControlPlanes {
  const gone = new Set(
    nodes.filter(({ health }) => health === NodeHealth.TIMEOUT).map(({ nodeId }) => nodeId),
  );
  const named = directory.filter(({ curatorEndpoint }) => curatorEndpoint !== '');
  return {
    reachable: named.filter(({ nodeId }) => !gone.has(nodeId)).map(({ curatorEndpoint }) => curatorEndpoint),
    unreachable: named.filter(({ nodeId }) => gone.has(nodeId)).map(({ name }) => name),
  };
}

async function proof(
  context: CommandContext,
  what: string,
  look: () => Promise<readonly [boolean, string]>,
): Promise<RemovalCheck> {
  try {
    const [ok, actual] = await look();
    return { what, ok, actual };
  } catch (error) {
    context.signal.throwIfAborted();
    return { what, ok: false, actual: `not answered: ${describeError(error)}` };
  }
}
