import { toBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import type { Clock } from '../../internal/clock/index.ts';
import { put, unchanged, type KeySpace } from '../../internal/etcd/index.ts';
import { verifyConfigurationChange } from '../../internal/config/index.ts';
import { CONFIGURATION_KEY, records } from '../../internal/records/index.ts';
import {
  DeleteNodeRequestSchema,
  SetNodeRolesRequestSchema,
  SetNodeStateRequestSchema,
  UpdateConfigurationRequestSchema,
  type UpdateConfigurationRequest,
  UpdateNodeLabelsRequestSchema,
} from '../curatorproto/gen/curator_pb.js';
import type { Call } from '../../internal/rpc/index.ts';
import { isControlPlane } from '../../internal/role/index.ts';
import { nameOfCaller, type Caller } from './admission.ts';
import { CuratorError } from './errors.ts';
import type { GuardedHandlers } from './guard.ts';
import type { Mutation, Mutations } from './mutations.ts';
import { planDeletion, planLabels, planRoles, planState } from './node-plans.ts';
import type { NodeStore } from './node-store.ts';
import { storedConfiguration } from './stored-configuration.ts';
import { nodeToWire, refuse, rolesFromWire, stateFromWire } from './wire.ts';

const MAX_CONFIGURATION_BYTES = 512 * 1024;

type WriteMethods =
  'setNodeRoles' | 'setNodeState' | 'updateNodeLabels' | 'deleteNode' | 'updateConfiguration';

/** Calls that change what the cluster has decided: each one a plan from what was read, and one transaction. */
export function writeHandlers(parts: WriteParts): Pick<GuardedHandlers, WriteMethods> {
  const { nodes, mutations } = parts;
  const nodeNow = async (nodeId: string, signal: AbortSignal) => ({
    node: nodeToWire(await nodes.get(nodeId, signal)),
  });
  return {
    setNodeRoles: async (request, call) => {
      const roles = rolesFromWire(request.roles);
      await mutations.run(mutation('SetNodeRoles', SetNodeRolesRequestSchema, request, call), async () => {
        const node = await nodes.get(request.nodeId, call.signal);
        // Reading thousands of nodes takes longer than all the rest; only a demotion needs to know the others.
        const isDemotion = isControlPlane(node.record.roles) && !isControlPlane(roles);
        const all = isDemotion ? (await nodes.list(call.signal)).nodes : [];
        return planRoles(node, all, roles);
      });
      return nodeNow(request.nodeId, call.signal);
    },
    setNodeState: async (request, call) => {
      const state = stateFromWire(request.state);
      await mutations.run(mutation('SetNodeState', SetNodeStateRequestSchema, request, call), async () =>
        planState(await nodes.get(request.nodeId, call.signal), state),
      );
      return nodeNow(request.nodeId, call.signal);
    },
    updateNodeLabels: async (request, call) => {
      await mutations.run(
        mutation('UpdateNodeLabels', UpdateNodeLabelsRequestSchema, request, call),
        async () => planLabels(await nodes.get(request.nodeId, call.signal), request),
      );
      return nodeNow(request.nodeId, call.signal);
    },
    deleteNode: async (request, call) => {
      await mutations.run(mutation('DeleteNode', DeleteNodeRequestSchema, request, call), async () =>
        planDeletion(await nodes.get(request.nodeId, call.signal)),
      );
      return {};
    },
    updateConfiguration: (request, call) => updateConfiguration(parts, request, call),
  };
}

export interface WriteParts {
  readonly etcd: KeySpace;
  readonly nodes: NodeStore;
  readonly mutations: Mutations;
  readonly clock: Clock;
}

/** Judged as a whole before it is stored: nobody follows a document that can't be. */
async function updateConfiguration(
  { etcd, mutations, clock }: WriteParts,
  request: UpdateConfigurationRequest,
  call: Call<Caller>,
): Promise<{ readonly revision: bigint }> {
  const { document, baseRevision } = request;
  if (document.length > MAX_CONFIGURATION_BYTES) refuse('document', `${document.length} bytes`);
  const made = mutation('UpdateConfiguration', UpdateConfigurationRequestSchema, request, call);
  const revision = await mutations.run(made, async () => {
    const entry = await etcd.get(CONFIGURATION_KEY, { signal: call.signal });
    if (entry?.modRevision !== baseRevision) throw staleConfiguration(baseRevision, entry?.modRevision);
    const paths = verifyConfigurationChange(
      Buffer.from(storedConfiguration(entry).document).toString('utf8'),
      Buffer.from(document).toString('utf8'),
    );
    const record = {
      version: 1 as const,
      document: Buffer.from(document).toString('base64'),
      updatedMs: clock.nowMs(),
      updatedBy: nameOfCaller(call.peer),
    };
    return {
      when: [unchanged(entry)],
      then: paths.length === 0 ? [] : [put(CONFIGURATION_KEY, records.configuration.encode(record))],
      detail: { baseRevision: String(baseRevision), paths: paths.map((path) => path.join('.')) },
    };
  });
  return { revision };
}

interface MutatingRequest {
  readonly nodeId?: string;
  readonly mutation?: { readonly idempotencyKey: string } | undefined;
}

function mutation<S extends DescMessage>(
  method: string,
  schema: S,
  request: MessageShape<S> & MutatingRequest,
  call: { readonly peer: Caller; readonly signal: AbortSignal },
): Mutation {
  return {
    caller: call.peer,
    method,
    subject: request.nodeId ?? 'configuration',
    idempotencyKey: request.mutation?.idempotencyKey ?? '',
    request: toBinary(schema, request),
    signal: call.signal,
  };
}

function staleConfiguration(base: bigint, current: bigint | undefined): CuratorError {
  return new CuratorError(
    'curator-configuration-stale',
    `updating the configuration from revision ${base}: it is at ${current ?? 'none'}`,
    { details: { baseRevision: String(base), currentRevision: String(current ?? 0n) } },
  );
}
