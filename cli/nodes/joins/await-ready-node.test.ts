import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { NodeHealth, NodeRole, NodeState } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { JoinSchema, JoinState } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { createCuratorHarness } from '../../cluster/curator/fake-curator.ts';
import { FastForwardClock } from '../../cluster/curator/fake-fast-forward-clock.ts';
import { createKubernetes } from '../../cluster/curator/fake-kubernetes.ts';
import { layoutOf } from '../../workspace/index.ts';
import { reportedComponents } from '../roles/fake-components.ts';
import { runApprove, type ApproveOptions } from '../index.ts';
import { joinListing, joinViewFrom } from './joins.ts';

const CONTROL = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER];
const WORKER = [NodeRole.KUBERNETES_WORKER];
const IDENTITY = `tpm-ek:${'ab'.repeat(32)}`;
const JOIN = { joinId: 'node-0002', name: 'n2', hostname: 'm2', fingerprint: 'sha256:abcd', roles: WORKER };
const NODE = {
  nodeId: JOIN.joinId,
  name: 'n2',
  state: NodeState.UP,
  health: NodeHealth.HEALTHY,
  roles: WORKER,
};
const kubelet = (status: string, message = '') => ({
  metadata: { name: 'n2' },
  status: { conditions: [{ type: 'Ready', status, reason: 'KubeletNotReady', message }] },
});

/** A pod of the control plane that has just started. */
const SCHEDULER = {
  metadata: { name: 'kube-scheduler-n2', namespace: 'kube-system' },
  spec: {},
  status: { phase: 'Running' },
};

/** The state of the cluster at one poll of the program. The last state remains. */
interface Look {
  readonly join?: object;
  readonly nodes?: readonly object[];
  readonly learners?: number;
  readonly objects?: readonly object[];
  readonly pods?: readonly object[];
}

/** A cluster whose state advances with each poll of the program. */
async function createCluster(looks: readonly Look[], options: { readonly kubernetes?: boolean } = {}) {
  let at = -1;
  const now = (): Look => looks[Math.min(Math.max(at, 0), looks.length - 1)] ?? {};
  const decided: string[] = [];
  const harness = await createCuratorHarness(
    {
      listNodes: async () => {
        at++;
        return { nodes: [...(now().nodes ?? [])] };
      },
      getClusterInfo: async () => ({
        directory: [],
        etcd: {
          hasLeader: true,
          members: Array.from({ length: now().learners ?? 0 }, () => ({ isLearner: true })),
        },
      }),
    },
    {
      listJoins: async ({ states }) => {
        const join = { ...JOIN, state: JoinState.APPROVED, ...now().join };
        return { joins: states.length === 0 || states.includes(join.state) ? [join] : [], dropped: 0n };
      },
      decideJoin: async ({ join }) => {
        decided.push(join);
        const machine = { identity: IDENTITY, identityProof: 'unproved' };
        return { join: { ...JOIN, ...machine, state: JoinState.APPROVED } };
      },
    },
  );
  const { files, owner } = harness;
  const kubernetes =
    options.kubernetes === false
      ? undefined
      : await createKubernetes(
          files,
          layoutOf('/owner').kubeconfig,
          { metadata: { annotations: {} }, spec: {} },
          {
            address: '127.0.0.1',
            port: 0,
            answer: ({ url }) => {
              if (url.startsWith('/api/v1/pods?')) return { items: now().pods ?? [] };
              return url === '/api/v1/nodes' ? { items: now().objects ?? [] } : undefined;
            },
          },
        );
  const context = { ...owner, ports: { ...owner.ports, clock: new FastForwardClock() } };
  return {
    context,
    decided,
    /** @param waitMs the time limit */
    approve: (waitMs = 600_000, roles: readonly ['worker'] | readonly ['control-plane'] = ['worker']) =>
      runApprove(context, 'node-0002', { name: 'n2', roles, labels: {}, waitMs }),
    approveAtOnce: (over: Partial<ApproveOptions> = {}, which = 'node-0002') =>
      runApprove(context, which, { name: 'n2', roles: ['worker'], labels: {}, ...over }),
    [Symbol.asyncDispose]: async () => {
      await kubernetes?.[Symbol.asyncDispose]();
      await harness[Symbol.asyncDispose]();
    },
  };
}

describe('runApprove() with a time limit', () => {
  test('waits until the machine is a member and its kubelet is ready, and says what it waits for', async () => {
    await using cluster = await createCluster([
      { join: { code: 'join-clock', message: 'clock is 9s off' } },
      { nodes: [{ ...NODE, health: NodeHealth.TIMEOUT }] },
      { nodes: [NODE] },
      { nodes: [NODE], objects: [kubelet('False', 'network plugin not ready')] },
      { nodes: [NODE], objects: [kubelet('True')], pods: [SCHEDULER] },
      { nodes: [NODE], objects: [kubelet('True')] },
    ]);
    await cluster.approve();
    expect(cluster.decided).toEqual(['node-0002']);
    const { host } = cluster.context;
    expect(host.codes).toEqual(['node-approved', 'node-approve-wait']);
    const [approved] = host.records.flatMap((each) => (each.kind === 'say' ? [each.text] : []));
    expect(approved).toContain(`${IDENTITY} (approved or listed key, manufacturer not verified)`);
    expect(host.answered).toMatchObject({ join: { name: 'n2' }, ready: true, kubernetesAsked: true });
    expect(host.updates).toEqual([
      'the machine has not requested its ticket, for 0ms; last error: join-clock clock is 9s off',
      'the agent of the node does not respond, for 0ms',
      'its kubelet has not registered, for 0ms',
      'its kubelet is not ready, for 0ms; last error: network plugin not ready',
      'Kubernetes does not show the pod kube-scheduler-n2 as ready, for 0ms',
    ]);
  });

  const stuck: readonly { name: string; look: Look; text: string }[] = [
    {
      name: 'a machine in the queue of control planes',
      look: { join: { queue: { position: 2, estimateMs: 1n } } },
      text: 'the machine has position 2 among joining control planes, for',
    },
    {
      name: 'an error that the agent reports',
      look: {
        nodes: [
          { ...NODE, health: NodeHealth.TIMEOUT, status: { lastError: { code: 'disk-full', message: 'x' } } },
        ],
      },
      text: 'last error: disk-full: x',
    },
    {
      name: 'an API server that is not ready',
      look: {
        nodes: [{ ...NODE, roles: CONTROL, status: { controlPlane: reportedComponents('no etcd') } }],
        objects: [kubelet('True')],
      },
      text: 'kube-apiserver is not ready, for',
    },
    {
      name: 'a learner of etcd',
      look: {
        nodes: [{ ...NODE, roles: CONTROL, status: { controlPlane: reportedComponents() } }],
        learners: 1,
        objects: [kubelet('True')],
      },
      text: 'etcd has a learner that does not vote yet, for',
    },
  ];
  test.each(stuck)('reports what is missing when the time limit ends: $name', async ({ look, text }) => {
    await using cluster = await createCluster([look]);
    await expect(cluster.approve(300_000)).rejects.toMatchObject({
      code: 'nodes-approve-timeout',
      message: expect.stringMatching(/^waiting 5m for node n2: .*, for [5-9]m/),
    });
    await expect(cluster.approve(1)).rejects.toThrow(text);
  });

  test('ends when the machine is refused', async () => {
    await using cluster = await createCluster([
      { join: { state: JoinState.REFUSED, code: 'join-policy', message: 'not in policy' } },
    ]);
    await expect(cluster.approve()).rejects.toMatchObject({
      code: 'nodes-join-refused',
      message: 'machine n2 was refused: join-policy not in policy',
    });
  });

  test('sends no second approval when the machine has joined since an earlier run', async () => {
    await using cluster = await createCluster([
      { join: { state: JoinState.JOINED }, nodes: [NODE], objects: [kubelet('True')] },
    ]);
    await cluster.approve();
    expect(cluster.decided).toEqual([]);
    expect(cluster.context.host.answered).toMatchObject({ ready: true });
  });

  test('sends the approval again if the machine has joined with another role, so that the cluster can refuse it', async () => {
    await using cluster = await createCluster([
      {
        join: { state: JoinState.JOINED, roles: CONTROL },
        nodes: [NODE],
        objects: [kubelet('True')],
      },
    ]);
    await cluster.approve();
    expect(cluster.decided).toEqual(['node-0002']);
  });

  test('without a kubeconfig ends at a healthy member, and says that Kubernetes was not asked', async () => {
    await using cluster = await createCluster([{ nodes: [NODE] }], { kubernetes: false });
    await cluster.approve();
    expect(cluster.context.host.answered).toMatchObject({ ready: true, kubernetesAsked: false });
  });
});

describe('runApprove() of a machine that has joined', () => {
  const joined = (over: object = {}) =>
    createCluster([{ join: { state: JoinState.JOINED, fingerprint: 'sha256:aabbccdd00', ...over } }]);

  test.each(['node-0002', 'sha256:aabbccdd', 'aabbccdd', 'sha256:aabbccdd…'])(
    'says so and changes nothing, however the machine is named: %s',
    async (which) => {
      await using cluster = await joined();
      await cluster.approveAtOnce({}, which);
      await cluster.approveAtOnce({ name: undefined }, which);
      expect(cluster.decided).toEqual([]);
      const { records } = cluster.context.host;
      const texts = records.flatMap((each) => (each.kind === 'result' ? [each.text] : []));
      expect(texts).toEqual(Array(2).fill('n2 has joined already; nothing was changed.'));
    },
  );

  test.each([
    { what: 'name', over: { name: 'n9' } },
    { what: 'label', over: { labels: { zone: 'a' } } },
    { what: 'taint', over: { taints: [{ key: 'gpu', value: '', effect: 'NoSchedule' as const }] } },
    { what: 'role', over: { roles: ['control-plane' as const] } },
  ])('lets the cluster refuse an approval with another $what', async ({ over }) => {
    await using cluster = await joined();
    await cluster.approveAtOnce(over);
    expect(cluster.decided).toEqual(['node-0002']);
  });
});

test('joinListing() shows that an ID or fingerprint is cut', () => {
  const join = joinViewFrom(
    create(JoinSchema, { joinId: `node-${'ab'.repeat(16)}`, fingerprint: 'sha256:ab' }),
  );
  const textsOf = (wide: boolean) => {
    const { columns } = joinListing([join], { nowMs: 0, wide });
    return ['JOIN', 'FINGERPRINT'].map((each) => columns.find(({ title }) => title === each)?.textOf(join));
  };
  expect(textsOf(false)).toEqual(['node-abababababa…', 'sha256:ab']);
  expect(textsOf(true)).toEqual([join.joinId, 'sha256:ab']);
});
