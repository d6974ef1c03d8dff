import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { NodeRole, NodeSchema, Runnable_State } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { nodeViewFrom, nodeViewsFrom } from './node-view.ts';

test('nodeViewsFrom() sorts nodes by name, numbers as numbers', () => {
  const nodes = ['n10', 'db-1', 'n2', 'n1'].map((name) =>
    create(NodeSchema, { name, nodeId: `node-${name}` }),
  );
  expect(nodeViewsFrom(nodes).map(({ name }) => name)).toEqual(['db-1', 'n1', 'n2', 'n10']);
});

test('a node lists the last errors of the runnables that have not recovered, with their times', () => {
  const lastError = { code: 'x', message: 'no\u001b[31m', timeMs: 7n };
  const runnables = [
    { path: 'root.renewal', state: Runnable_State.HEALTHY, lastError },
    { path: 'root.once', state: Runnable_State.DONE, lastError },
    { path: 'root.kubernetes', state: Runnable_State.NEW, lastError },
    { path: 'root.disk', state: Runnable_State.NEW },
  ];
  const node = create(NodeSchema, { nodeId: 'n', status: { runnables } });
  expect(nodeViewFrom(node).troubles).toEqual([
    { path: 'root.kubernetes', error: 'x: no?[31m', failedMs: 7 },
  ]);
});

test('a node shows its roles by the names that commands take, each once', () => {
  const all = [NodeRole.CONSENSUS_MEMBER, NodeRole.KUBERNETES_CONTROLLER, NodeRole.KUBERNETES_WORKER];
  const rolesOf = (roles: readonly NodeRole[]) =>
    nodeViewFrom(create(NodeSchema, { roles: [...roles] })).roles;
  expect(rolesOf(all)).toEqual(['control-plane', 'worker']);
  expect(rolesOf([NodeRole.CONSENSUS_MEMBER])).toEqual(['control-plane']);
});

test('a node shows the round trips that it reports, and none of an older agent', () => {
  const roundTripsOf = (podNetwork: object) =>
    nodeViewFrom(create(NodeSchema, { status: { machine: { podNetwork } } })).machine?.podNetwork?.roundTrips;
  const peers = [{ address: '10.244.1.0\u001b[31m', milliseconds: 40 }];
  expect(roundTripsOf({ roundTrips: { peers } })).toEqual([{ address: '10.244.1.0?[31m', ms: 40 }]);
  expect(roundTripsOf({ roundTrips: {} })).toEqual([]);
  expect(roundTripsOf({})).toBeUndefined();
});
