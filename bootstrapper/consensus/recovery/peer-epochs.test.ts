import { expect, test } from '@jest/globals';
import { records } from '../../../internal/records/index.ts';
import { PeerEpochs } from './peer-epochs.ts';

const signal = new AbortController().signal;
const NAMES = { clusterId: 'c0ffee', clusterName: 'blue', firstNodeId: 'node-1' };
const CLUSTER = { ...NAMES, version: 1, caPem: '', createdMs: 0 } as const;

/** Fake members by endpoint, each with its epoch; a member without an epoch is down. */
class StubMembers {
  readonly epochs = new Map<string, number>();
  /** Every connection that was opened, and its state. */
  readonly made: { readonly endpoint: string; isOpen: boolean; isBroken: boolean }[] = [];

  readonly connect = (endpoint: string) => {
    const connection = { endpoint, isOpen: true, isBroken: false };
    this.made.push(connection);
    return Promise.resolve({
      get: (key: string) => {
        const epoch = this.epochs.get(endpoint);
        if (epoch === undefined || connection.isBroken) return Promise.reject(new Error('unavailable'));
        const value = records.cluster.encode({ ...CLUSTER, epoch });
        return Promise.resolve({ key, value, modRevision: 1n, createRevision: 1n, leaseId: 0n });
      },
      [Symbol.dispose]: () => void (connection.isOpen = false),
    });
  };
}

function create() {
  const members = new StubMembers();
  members.epochs.set('a:2379', 1).set('b:2379', 2);
  return { members, peers: new PeerEpochs('state', members.connect) };
}

test('PeerEpochs.newest() reuses its connections, and dispose closes them', async () => {
  const { members, peers } = create();
  for (let twice = 0; twice < 2; twice++)
    expect(await peers.newest(['a:2379', 'b:2379'], signal)).toEqual({ epoch: 2, endpoints: ['b:2379'] });
  expect(members.made.map(({ endpoint }) => endpoint)).toEqual(['a:2379', 'b:2379']);
  peers[Symbol.dispose]();
  expect(members.made.filter(({ isOpen }) => isOpen)).toEqual([]);
});

test('PeerEpochs.newest() replaces a broken connection in the same call', async () => {
  const { members, peers } = create();
  await peers.newest(['b:2379'], signal);
  for (const each of members.made) each.isBroken = true;
  expect(await peers.newest(['b:2379'], signal)).toMatchObject({ epoch: 2 });
  expect(members.made).toMatchObject([{ isOpen: false }, { isOpen: true }]);
});

test('PeerEpochs.newest() ignores a stopped member and closes connections to unlisted ones', async () => {
  const { members, peers } = create();
  await peers.newest(['a:2379', 'b:2379'], signal);
  members.epochs.delete('b:2379');
  expect(await peers.newest(['b:2379'], signal)).toEqual({ epoch: 0, endpoints: [] });
  expect(members.made.filter(({ isOpen }) => isOpen)).toEqual([]);
});
