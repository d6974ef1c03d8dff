import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  NodeHealth,
  NodeRole,
  NodeSchema,
  NodeState,
  type Node,
} from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { reportedComponents } from './fake-components.ts';
import { describeQuorum, planRoleChange, unsafeChange } from './role-plan.ts';
import { parseLabelChanges, parseRoleNames, rolesFromNames, namesFromRoles } from './role-names.ts';

const CONTROL = rolesFromNames(['control-plane']);
const WORKER = rolesFromNames(['worker']);

function node(
  name: string,
  roles: readonly NodeRole[],
  health = NodeHealth.HEALTHY,
  controlPlane = reportedComponents(),
): Node {
  const status = { controlPlane };
  return create(NodeSchema, { nodeId: name, name, roles: [...roles], state: NodeState.UP, health, status });
}

function cluster(nodes: readonly Node[], etcd: Partial<{ hasLeader: boolean; learners: number }> = {}) {
  const voters = nodes.filter(({ roles }) => roles.includes(NodeRole.CONSENSUS_MEMBER)).length;
  return { nodes, etcd: { hasLeader: true, voters, learners: 0, ...etcd } };
}

describe('planRoleChange()', () => {
  const three = [node('n1', CONTROL), node('n2', CONTROL), node('n3', CONTROL)];
  const silent = node('n3', CONTROL, NodeHealth.TIMEOUT);

  test.each([
    {
      name: 'the last control plane',
      change: { node: node('n1', CONTROL), wanted: WORKER },
      all: cluster([node('n1', CONTROL)]),
      why: 'last control-plane',
    },
    {
      name: 'a removal that breaks the quorum',
      change: { node: three[0] as Node, wanted: WORKER },
      all: cluster([node('n1', CONTROL), node('n2', CONTROL), silent]),
      why: 'etcd would have 1 healthy of 2 voters, 2 needed',
    },
    {
      name: 'a change of members while etcd has no leader',
      change: { node: node('n4', WORKER), wanted: CONTROL },
      all: cluster(three, { hasLeader: false }),
      why: 'no leader',
    },
    {
      name: 'a second learner',
      change: { node: node('n4', WORKER), wanted: CONTROL },
      all: cluster(three, { learners: 1 }),
      why: 'one at a time',
    },
    {
      name: 'a new voter while the quorum is lost',
      change: { node: node('n4', WORKER), wanted: CONTROL },
      all: cluster([node('n1', CONTROL), node('n2', CONTROL, NodeHealth.TIMEOUT), silent]),
      why: 'only 1 healthy of 3 voters, 2 needed',
    },
    {
      name: 'the removal of the only ready API server',
      change: { node: node('n1', CONTROL), wanted: WORKER },
      all: cluster([
        node('n1', CONTROL),
        node('n2', CONTROL, NodeHealth.HEALTHY, reportedComponents('connection refused')),
      ]),
      why: 'no other control plane has a ready API server (n2: connection refused)',
    },
    {
      name: 'the removal of the only API server that has reported',
      change: { node: node('n1', CONTROL), wanted: [] },
      all: cluster([node('n1', CONTROL), node('n2', CONTROL, NodeHealth.HEALTHY, [])]),
      why: '(n2: its agent has not reported its API server yet)',
    },
    {
      name: 'the removal of the only API server whose node responds',
      change: { node: node('n1', CONTROL), wanted: WORKER },
      all: cluster([node('n1', CONTROL), node('n2', CONTROL, NodeHealth.TIMEOUT)]),
      why: '(n2: no heartbeat)',
    },
    {
      name: 'a node that is not a member',
      change: {
        node: create(NodeSchema, { name: 'n9', state: NodeState.DECOMMISSIONED, roles: [] }),
        wanted: WORKER,
      },
      all: cluster(three),
      why: 'not a member',
    },
  ])('refuses $name', ({ change, all, why }) => {
    expect(planRoleChange(change, all).refusals.join('; ')).toContain(why);
  });

  test.each([
    { name: 'does not respond', one: node('n1', CONTROL, NodeHealth.TIMEOUT) },
    {
      name: 'reports that its own API server is not ready',
      one: node('n1', CONTROL, NodeHealth.HEALTHY, reportedComponents('panic')),
    },
  ])('allows removing a node that $name, even if no other API server is ready', ({ one }) => {
    const others = ['n2', 'n3'].map((name) =>
      node(name, CONTROL, NodeHealth.HEALTHY, reportedComponents('starting')),
    );
    expect(planRoleChange({ node: one, wanted: [] }, cluster([one, ...others])).refusals).toEqual([]);
  });

  test('allows removing a lost control plane while another one serves the API', () => {
    const starting = node('n2', CONTROL, NodeHealth.HEALTHY, reportedComponents('starting'));
    const all = cluster([node('n1', CONTROL), starting, silent]);
    expect(planRoleChange({ node: silent, wanted: [] }, all).refusals).toEqual([]);
  });

  test('unsafeChange() says how to end the cluster only if the last control plane would leave', () => {
    const [only, other] = [node('n1', CONTROL), node('n2', CONTROL)];
    for (const [all, code] of [
      [[only], 'nodes-last-control-plane'],
      [[only, { ...other, health: NodeHealth.TIMEOUT }], 'nodes-change-unsafe'],
    ] as const) {
      const plan = planRoleChange({ node: only, wanted: [] }, cluster([...all]));
      expect(plan.refusals).not.toEqual([]);
      const error = unsafeChange('resetting node n1', plan, { why: plan.refusals });
      expect(error).toMatchObject({ code, message: expect.stringMatching(/^resetting node n1: /) });
      expect(error.fix.includes('/var/lib/cluster/reset/order.json')).toBe(all.length === 1);
    }
  });

  test('allows removing a voter that does not respond if the others keep the quorum', () => {
    const all = cluster([node('n1', CONTROL), node('n2', CONTROL), silent]);
    const plan = planRoleChange({ node: silent, wanted: WORKER }, all);
    expect(plan.refusals).toEqual([]);
    expect(describeQuorum(plan)).toBe('2 of 3 voters needed, 2 healthy → 2 of 2 voters needed, 2 healthy');
  });

  test('adds a voter and needs no drain for a promotion', () => {
    const change = { node: node('n4', WORKER), wanted: [...CONTROL, ...WORKER] };
    expect(planRoleChange(change, cluster([...three, change.node]))).toMatchObject({
      isNothing: false,
      refusals: [],
      needsDrain: false,
      voters: { before: 3, after: 4 },
      quorum: { before: 2, after: 3 },
      steps: [expect.stringContaining('approvals of other software'), expect.stringContaining('learner')],
    });
  });

  test('needs a drain when the role worker is removed', () => {
    const change = { node: node('n4', [...CONTROL, ...WORKER]), wanted: CONTROL };
    const plan = planRoleChange(change, cluster([...three, change.node]));
    expect(plan).toMatchObject({ needsDrain: true, refusals: [], voters: { before: 4, after: 4 } });
    expect(plan.steps[0]).toContain('pods');
  });

  test('expects one etcd voter for each control plane on record when nothing changes', () => {
    const behind = { ...cluster(three), etcd: { hasLeader: true, voters: 2, learners: 1 } };
    const plan = planRoleChange({ node: three[2] as Node, wanted: CONTROL }, behind);
    expect(plan).toMatchObject({ isNothing: true, voters: { before: 2, after: 3 } });
  });

  test('changes nothing for the same roles', () => {
    const plan = planRoleChange(
      { node: three[0] as Node, wanted: CONTROL },
      cluster(three, { hasLeader: false }),
    );
    expect(plan).toMatchObject({ isNothing: true, refusals: [], steps: [] });
  });
});

describe('role names and labels', () => {
  test('role names convert to roles and back', () => {
    expect(parseRoleNames('worker, control-plane')).toEqual(['worker', 'control-plane']);
    expect(namesFromRoles(rolesFromNames(['worker', 'control-plane']))).toEqual(['control-plane', 'worker']);
    expect(namesFromRoles([NodeRole.CONSENSUS_MEMBER])).toEqual([]);
  });

  test.each(['', 'master', 'worker;control-plane'])('parseRoleNames() refuses %j', (text) => {
    expect(() => parseRoleNames(text)).toThrow(expect.objectContaining({ code: 'app-usage' }));
  });

  test('parseLabelChanges() sets and removes labels like kubectl', () => {
    expect(parseLabelChanges(['a=b', 'x.io/y=', 'old-'])).toEqual({
      set: { a: 'b', 'x.io/y': '' },
      remove: ['old'],
    });
  });

  test('parseLabelChanges() allows removing a reserved label, and setting a label with a similar prefix', () => {
    expect(parseLabelChanges(['kubernetes.io/os-', 'mykubernetes.io/a=b', 'a=1', 'a=1'])).toEqual({
      set: { 'mykubernetes.io/a': 'b', a: '1' },
      remove: ['kubernetes.io/os'],
    });
  });

  test.each([
    ['a'],
    ['=b'],
    ['a b=c'],
    ['a=b c'],
    ['-'],
    ['a=1', 'a-'],
    ['a=1', 'a=2'],
    ['kubernetes.io/os=bsd'],
    ['topology.kubernetes.io/zone=a'],
    ['k8s.io/a=b'],
  ])('parseLabelChanges() refuses %j', (...words) => {
    expect(() => parseLabelChanges(words)).toThrow(expect.objectContaining({ code: 'app-usage' }));
  });
});
