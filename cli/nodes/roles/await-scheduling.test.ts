import { describe, expect, test } from '@jest/globals';
import { SystemClock } from '../../../internal/clock/index.ts';
import { NodeHealth, NodeRole, NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { generateKeyPem, nodeIdOf, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { layoutOf } from '../../workspace/index.ts';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { reportedComponents } from './fake-components.ts';
import {
  CONTROL_PLANE_TAINT,
  createKubernetes,
  type FakeNodeObject,
} from '../../cluster/curator/fake-kubernetes.ts';
import { runCordon, runSetRole, type DrainOptions } from '../index.ts';
import type { RoleName } from '../../../internal/role/index.ts';

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const WORKER = [NodeRole.KUBERNETES_WORKER];
const drain: DrainOptions = { force: false, deleteEmptyDirData: false, timeoutMs: 1_000 };
const BY_US = { 'cluster/cordoned-by': 'set-role' };

/** Pauses are short; time limits keep their length. */
class ShortPauses extends SystemClock {
  override sleep(ms: number, signal: AbortSignal): Promise<void> {
    return super.sleep(ms > 1_000 ? ms : 1, signal);
  }
}

/**
 * n1 is a control plane. n2 has the given roles in its record and in Kubernetes, where its taint changes only
 * after the first read.
 */
async function createNode(roles: readonly NodeRole[], object: Partial<FakeNodeObject> = {}) {
  const nodes = [CONTROL, roles].map((each, index) => {
    const publicKey = pubKeyDerOf(generateKeyPem());
    return {
      nodeId: nodeIdOf(publicKey),
      publicKey,
      name: `n${index + 1}`,
      state: NodeState.UP,
      health: NodeHealth.HEALTHY,
      roles: [...each],
    };
  });
  const [, second] = nodes;
  if (second === undefined) throw new Error('there are two');
  const harness = await createCuratorHarness({
    getNode: async () => ({ node: second }),
    listNodes: async () => ({
      nodes: nodes.map((each) => ({
        ...each,
        status: {
          controlPlane: each.roles.includes(NodeRole.KUBERNETES_CONTROLLER) ? reportedComponents() : [],
        },
      })),
    }),
    setNodeRoles: async (request) => {
      second.roles = [...request.roles];
      setTimeout(() => follow(second.roles), 0);
      return {};
    },
    getClusterInfo: async () => {
      const voters = nodes.filter((node) => node.roles.includes(NodeRole.CONSENSUS_MEMBER)).length;
      const members = Array.from({ length: voters }, () => ({ isLearner: false }));
      return { directory: [], etcd: { hasLeader: true, members } };
    },
  });
  const kubernetes = await createKubernetes(harness.files, layoutOf('/owner').kubeconfig, {
    metadata: { annotations: {} },
    spec: {},
    ...object,
  });
  const { state } = kubernetes;
  const follow = (now: readonly NodeRole[]): void => {
    const taints = now.includes(NodeRole.KUBERNETES_WORKER) ? [] : [CONTROL_PLANE_TAINT];
    state.node = { ...state.node, spec: { ...state.node.spec, taints } };
  };
  const owner = { ...harness.owner, ports: { ...harness.owner.ports, clock: new ShortPauses() } };
  return {
    owner,
    state,
    setRole: (...words: readonly RoleName[]) =>
      runSetRole(owner, 'n2', { roles: words, dryRun: false, yes: true, drain }),
    [Symbol.asyncDispose]: async () => {
      await kubernetes[Symbol.asyncDispose]();
      await harness[Symbol.asyncDispose]();
    },
  };
}

const cordoned = (annotations: Record<string, string>): FakeNodeObject => ({
  metadata: { annotations },
  spec: { unschedulable: true },
});
const isCordoned = ({ node }: { readonly node: FakeNodeObject }): boolean => node.spec.unschedulable === true;

describe('cluster node set-role and the cordon of the node', () => {
  test('uncordons the node after a promotion and after a demotion', async () => {
    await using node = await createNode(WORKER);
    await node.setRole('control-plane');
    expect([isCordoned(node.state), node.state.node.spec.taints]).toEqual([false, [CONTROL_PLANE_TAINT]]);
    expect(node.state.patches).toBe(2); // one patch by the drain, which cordons the node, and one that uncordons it
    await node.setRole('worker');
    expect([isCordoned(node.state), node.state.node.spec.taints]).toEqual([false, []]);
    expect(node.state.node.metadata.annotations).toEqual({ 'cluster/cordoned-by': null });
  });

  test('uncordons the node only when the taint is set', async () => {
    await using node = await createNode(CONTROL, cordoned(BY_US));
    const done = node.setRole('control-plane');
    while (node.state.asked < 5) await new Promise((resolve) => setImmediate(resolve));
    expect(isCordoned(node.state)).toBe(true);
    const { node: before } = node.state;
    node.state.node = { ...before, spec: { ...before.spec, taints: [CONTROL_PLANE_TAINT] } };
    await done;
    expect(isCordoned(node.state)).toBe(false);
  });

  test('uncordons the node after an interrupted run that has already changed the roles', async () => {
    await using node = await createNode(WORKER, cordoned(BY_US));
    await node.setRole('worker');
    expect([isCordoned(node.state), node.owner.host.answered]).toMatchObject([
      false,
      { plan: { isNothing: true } },
    ]);
  });

  test('keeps a node cordoned that an operator has cordoned', async () => {
    await using node = await createNode(WORKER, cordoned({}));
    await node.setRole('control-plane');
    await node.setRole('worker');
    expect([isCordoned(node.state), node.state.patches]).toEqual([true, 0]);
  });

  test('keeps a node cordoned that an operator cordons again, until the operator uncordons it', async () => {
    await using node = await createNode(WORKER, cordoned(BY_US));
    await runCordon(node.owner, 'n2', false);
    await node.setRole('worker');
    expect(isCordoned(node.state)).toBe(true);
    await runCordon(node.owner, 'n2', true);
    expect(isCordoned(node.state)).toBe(false);
  });

  test('changes the roles without a kubeconfig and warns about the cordon', async () => {
    await using node = await createNode(CONTROL);
    await node.owner.ports.files.remove(layoutOf('/owner').kubeconfig);
    await node.setRole('worker');
    expect(node.owner.host.answered).toMatchObject({ to: ['worker'] });
    expect(node.owner.host.codes).toContain('node-pods-unseen');
  });
});
