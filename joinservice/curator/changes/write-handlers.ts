import type { Clock } from '../../../internal/clock/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import {
  DeleteNodeRequestSchema,
  SetNodeRolesRequestSchema,
  SetNodeStateRequestSchema,
  UpdateConfigurationRequestSchema,
  UpdateNodeLabelsRequestSchema,
  UpdateNodeTaintsRequestSchema,
} from '../../curatorproto/gen/curator_pb.js';
import type { OwnerDocuments } from '../../ownerdocs/index.ts';
import type { AuthorizedHandlers } from '../access/authorized-handlers.ts';
import { mutationFrom, type Mutations } from './mutations.ts';
import { planConfiguration } from './configuration-plan.ts';
import { planSignedDeletion } from './deletion-plan.ts';
import { losesControlPlane, planLabels, planRoles, planState, type GuardedCluster } from './node-plans.ts';
import { planTaints } from './taint-plans.ts';
import type { NodeStore } from '../nodes/node-store.ts';
import type { CuratorFacts } from '../nodes/read-handlers.ts';
import { submitterOf, verifyControlPlaneGrant, withDocuments } from './signed-changes.ts';
import { nodeToWire, rolesFromWire, stateFromWire } from '../nodes/node-wire.ts';

type WriteMethods =
  | 'setNodeRoles'
  | 'setNodeState'
  | 'updateNodeLabels'
  | 'updateNodeTaints'
  | 'deleteNode'
  | 'updateConfiguration';

/**
 * Handlers of the calls that change records. Each handler reads records, plans the change and makes one
 * transaction.
 */
export function writeHandlers(parts: WriteHandlerParts): Pick<AuthorizedHandlers, WriteMethods> {
  const { nodes, mutations, ownerDocs } = parts;
  const currentNode = async (nodeId: string, signal: AbortSignal) => ({
    node: nodeToWire(await nodes.get(nodeId, signal)),
  });
  return {
    setNodeRoles: async (request, call) => {
      const roles = rolesFromWire(request.roles);
      await mutations.run(
        mutationFrom(SetNodeRolesRequestSchema, request, { ...call, subject: request.nodeId }),
        async () => {
          const [node, submission] = await Promise.all([
            nodes.get(request.nodeId, call.signal),
            // Most changes of roles need no owner, and reading the owners takes a third of the call.
            request.documents.length === 0
              ? undefined
              : ownerDocs.submission(request.documents, submitterOf(call)),
          ]);
          // Only a demotion reads all nodes, because reading thousands of nodes takes longer than the rest of
          // the call.
          const cluster = losesControlPlane(node.record.roles, roles)
            ? await readGuardedCluster(parts, call.signal)
            : { nodes: [], etcdVoters: 0 };
          await verifyControlPlaneGrant({ ...parts, submission }, { node: node.record, roles }, call.signal);
          return withDocuments(planRoles(node, roles, cluster), submission);
        },
      );
      return currentNode(request.nodeId, call.signal);
    },
    setNodeState: async (request, call) => {
      const state = stateFromWire(request.state);
      await mutations.run(
        mutationFrom(SetNodeStateRequestSchema, request, { ...call, subject: request.nodeId }),
        async () => planState(await nodes.get(request.nodeId, call.signal), state),
      );
      return currentNode(request.nodeId, call.signal);
    },
    updateNodeLabels: async (request, call) => {
      await mutations.run(
        mutationFrom(UpdateNodeLabelsRequestSchema, request, { ...call, subject: request.nodeId }),
        async () => planLabels(await nodes.get(request.nodeId, call.signal), request),
      );
      return currentNode(request.nodeId, call.signal);
    },
    updateNodeTaints: async (request, call) => {
      await mutations.run(
        mutationFrom(UpdateNodeTaintsRequestSchema, request, { ...call, subject: request.nodeId }),
        async () => planTaints(await nodes.get(request.nodeId, call.signal), request),
      );
      return currentNode(request.nodeId, call.signal);
    },
    deleteNode: async (request, call) => {
      await mutations.run(
        mutationFrom(DeleteNodeRequestSchema, request, { ...call, subject: request.nodeId }),
        async () => planSignedDeletion(parts, request, call),
      );
      return {};
    },
    updateConfiguration: async (request, call) => ({
      revision: await mutations.run(
        mutationFrom(UpdateConfigurationRequestSchema, request, { ...call, subject: 'configuration' }),
        () => planConfiguration(parts, request, call),
      ),
    }),
  };
}

/** Dependencies of the write handlers. */
export interface WriteHandlerParts {
  readonly etcd: KeySpace;
  readonly nodes: NodeStore;
  readonly mutations: Mutations;
  readonly clock: Clock;
  readonly ownerDocs: OwnerDocuments;
  readonly facts: Pick<CuratorFacts, 'etcdMembers'>;
}

async function readGuardedCluster(
  { nodes, facts }: WriteHandlerParts,
  signal: AbortSignal,
): Promise<GuardedCluster> {
  const [listed, members] = await Promise.all([nodes.list(signal), facts.etcdMembers(signal)]);
  return { nodes: listed.nodes, etcdVoters: members.filter(({ isLearner }) => !isLearner).length };
}
