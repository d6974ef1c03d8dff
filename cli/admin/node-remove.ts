import {
  Curator,
  NodeHealth,
  NodeRole,
  NodeState,
  type DirectoryEntry,
  type Node,
} from '../../joinservice/curatorproto/gen/curator_pb.js';
import { NodeStreams } from '../../joinservice/curatorproto/gen/streams_pb.js';
import { CodedError, describeError } from '../../internal/errors/index.ts';
import { deleteNodeObject, listNodes, reviewKubelet } from '../../internal/kube/index.ts';
import type { CommandContext } from '../app/command.ts';
import { printable } from '../cluster/index.ts';
import { formatTable } from '../host/index.ts';
import { ask, newMutation, nodeNamed, withKubernetes } from './desk.ts';
import { drainNode, type DrainOptions } from './drain.ts';
import { AdminError } from './errors.ts';
import { describeQuorum } from './role-plan.ts';
import { awaitVoters, planNow } from './set-role.ts';

const POLL_MS = 1_000;
const PROOF_MS = 60_000;
const API_PORT = 6443;

export interface RemoveOptions {
  readonly dryRun: boolean;
  /** The machine is gone: nothing of it can be asked to go in order. */
  readonly isLost: boolean;
  readonly drain: DrainOptions;
}

/** One thing that must be so when a node has been removed. */
export interface RemovalProof {
  readonly what: string;
  readonly ok: boolean;
  readonly actual: string;
}

/**
 * `cluster node remove`: workloads away, roles away, decommissioned, deleted; and then it is asked whether it is gone,
 * until everything says so.
 */
export async function runRemove(
  context: CommandContext,
  name: string,
  options: RemoveOptions,
): Promise<void> {
  const node = await nodeNamed(context, name);
  const plan = await planNow(context, node, []);
  const refusals = plan.refusals.filter(() => node.state === NodeState.UP);
  if (node.health !== NodeHealth.HEALTHY && node.state === NodeState.UP && !options.isLost)
    refusals.push(`it is not healthy and could not leave in order; say --lost if it will not come back`);
  if (refusals.length > 0)
    throw new AdminError('manage-guard', `removing node ${node.name}: ${refusals.join('; ')}`);
  if (options.dryRun) {
    const steps = [...plan.steps, 'decommission it: every curator refuses its key', 'delete its records'];
    context.host.result({ node: node.name, dryRun: true, steps, plan }, () =>
      [
        `Node ${node.name} would be removed; nothing was done.`,
        ...steps.map((step, index) => `  ${index + 1}. ${step}`),
        `  quorum  ${describeQuorum(plan)}`,
      ].join('\n'),
    );
    return;
  }
  if (node.state === NodeState.UP) await takeOut(context, node, plan.voters.after, options);
  await strike(context, node);
  const proofs = await awaitProofs(context, node);
  context.host.result({ node: node.name, nodeId: node.nodeId, proofs }, () =>
    [
      `Node ${node.name} is removed.`,
      formatTable(
        ['CHECKED', 'RESULT'],
        proofs.map(({ what, actual }) => [what, actual]),
      ),
      ...(node.roles.includes(NodeRole.CONSENSUS_MEMBER) ? ['', ...notRevoked(options)] : []),
    ].join('\n'),
  );
}

/** What no record can take back: keys that this node had, by what somebody could do with a copy of each. */
const SHARED_KEYS = [
  ['etcd clients CA', "read and write all of etcd as its root, past every control plane's API"],
  ['etcd peers CA', 'speak to members of etcd as one of them'],
  ['Kubernetes CA', 'be any user of Kubernetes, system:masters too'],
  ['front proxy CA', 'be an aggregated API for the API servers'],
  ['service account key', 'make tokens of any service account'],
  ['encryption key', 'read secrets in a copy of etcd'],
  ['cluster CA', 'show a certificate of the cluster; without a key on record every curator refuses it'],
] as const;

function notRevoked({ isLost }: RemoveOptions): readonly string[] {
  return [
    isLost
      ? 'It held keys that all control planes share, and they are not wiped from its disk. Not proved, and not revoked by this:'
      : 'It held keys that all control planes share. They were wiped from its disk; a copy that somebody made before is not revoked:',
    ...SHARED_KEYS.map(([key, harm]) => `  ${key.padEnd(20)}${harm}`),
    ...(isLost ? ['Unless the disk is destroyed, rotate them: until then whoever has it can do so.'] : []),
  ];
}

/** In the order that harms nobody: pods, then roles, so that etcd loses a member that leaves by itself. */
export async function takeOut(
  context: CommandContext,
  node: Node,
  votersAfter: number,
  options: RemoveOptions,
): Promise<void> {
  const { name, nodeId, roles } = node;
  if (!options.isLost) await drainNode(context, name, options.drain);
  await ask(context, (curator, call) =>
    curator.setNodeRoles({ nodeId, roles: [], mutation: newMutation() }, call),
  );
  if (roles.includes(NodeRole.CONSENSUS_MEMBER) && !options.isLost)
    await awaitVoters(context, name, votersAfter);
}

export async function strike(context: CommandContext, { name, nodeId, state }: Node): Promise<void> {
  await context.host.step('node-strike', `Striking ${name} off the records`, async () => {
    if (state !== NodeState.DECOMMISSIONED)
      await ask(context, (curator, call) =>
        curator.setNodeState({ nodeId, state: NodeState.DECOMMISSIONED, mutation: newMutation() }, call),
      );
    await ask(context, (curator, call) => curator.deleteNode({ nodeId, mutation: newMutation() }, call));
    await withKubernetes(context, (client) => deleteNodeObject(client, name, context.signal));
  });
}

export async function awaitProofs(context: CommandContext, node: Node): Promise<readonly RemovalProof[]> {
  const { clock } = context.ports;
  return context.host.step('node-proofs', `Asking whether ${node.name} is gone`, async (progress) => {
    const deadlineMs = clock.monotonicMs() + PROOF_MS;
    for (;;) {
      const proofs = await lookForTraces(context, node);
      const open = proofs.filter(({ ok }) => !ok);
      if (open.length === 0) return proofs;
      const text = open.map(({ what, actual }) => `${what}: ${actual}`).join('; ');
      progress.update(text);
      if (clock.monotonicMs() > deadlineMs)
        throw new AdminError('manage-still-accepted', `removing node ${node.name}: ${text}`, {
          details: { proofs },
        });
      await clock.sleep(POLL_MS, context.signal);
    }
  });
}

/** Each asked anew; an answer that could not be had proves nothing. */
async function lookForTraces(context: CommandContext, node: Node): Promise<readonly RemovalProof[]> {
  const { nodeId, name } = node;
  const { live, silent } = await controlPlanesNow(context);
  const notAsked = silent.map((other) => ({
    what: `control plane ${printable(other)}`,
    ok: true,
    actual: 'is silent and was not asked: it lets nobody in before it has read the records',
  }));
  const proofs = await Promise.all([
    ...live.flatMap((curator) => proofsAt(context, node, curator)),
    proof(context, 'the directory of control planes', async () => {
      const { directory } = await ask(context, (_, call, of) => of(Curator).getClusterInfo({}, call));
      const isThere = directory.some((entry) => entry.nodeId === nodeId);
      return isThere ? [false, 'names it'] : [true, 'does not name it'];
    }),
    proof(context, 'etcd', async () => {
      const { etcd } = await ask(context, (_, call, of) => of(Curator).getClusterInfo({}, call));
      const members = (etcd?.members ?? []).map((member) => member.name);
      if (members.length === 0) return [false, 'no member is known'];
      const isThere = members.includes(name) || members.includes(nodeId);
      return isThere ? [false, 'has it as a member'] : [true, `${members.length} members, none is it`];
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
function proofsAt(context: CommandContext, node: Node, curator: string): readonly Promise<RemovalProof>[] {
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
  const server = `https://${curator.replace(/:\d+$/, '')}:${API_PORT}`;
  return [
    proof(context, `its record at ${curator}`, () =>
      refused(
        () => ask(context, (client, call) => client.getNode({ node: nodeId }, call), curator),
        'is there',
        'unknown: its key is refused from now on',
      ),
    ),
    proof(context, `its stream to ${curator}`, () => {
      const call = { signal: context.signal, timeoutMs: 10_000 };
      return refused(
        () => ask(context, (_, _call, of) => of(NodeStreams).getMetrics({ node: nodeId }, call), curator),
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

/** Each of them must refuse by itself. */
async function controlPlanesNow(context: CommandContext): Promise<ControlPlanes> {
  return ask(context, async (curator, call) => {
    const [{ directory }, { nodes }] = await Promise.all([
      curator.getClusterInfo({}, call),
      curator.listNodes({}, call),
    ]);
    return controlPlanesFrom(directory, nodes);
  });
}

export interface ControlPlanes {
  /** Curators that can be asked, "HOST:PORT". */
  readonly live: readonly string[];
  /** Names of those that have not beaten for so long that they count as gone: of several that are lost, one is removed after the other. */
  readonly silent: readonly string[];
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
    live: named.filter(({ nodeId }) => !gone.has(nodeId)).map(({ curatorEndpoint }) => curatorEndpoint),
    silent: named.filter(({ nodeId }) => gone.has(nodeId)).map(({ name }) => name),
  };
}

async function proof(
  context: CommandContext,
  what: string,
  look: () => Promise<readonly [boolean, string]>,
): Promise<RemovalProof> {
  try {
    const [ok, actual] = await look();
    return { what, ok, actual };
  } catch (error) {
    context.signal.throwIfAborted();
    return { what, ok: false, actual: `not answered: ${describeError(error)}` };
  }
}
