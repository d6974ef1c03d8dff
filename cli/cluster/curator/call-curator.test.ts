import { expect, test } from '@jest/globals';
import { EtcdError } from '../../../internal/etcd/index.ts';
import { callCurator, withCuratorRetries } from './call-curator.ts';
import { createCuratorHarness } from './fake-curator.ts';
import { FastForwardClock } from './fake-fast-forward-clock.ts';

test('callCurator() tells in plain words that it tries again while etcd elects a leader', async () => {
  let asked = 0;
  await using harness = await createCuratorHarness({
    checkHealth: async () => {
      if (asked++ > 0) return { nodeId: 'node-1' };
      const cause = new Error('etcdserver: leader changed');
      throw new EtcdError('etcd-unavailable', 'reading /cluster/meta/cluster from etcd', { cause });
    },
  });
  const { owner } = harness;
  const context = withCuratorRetries({ ...owner, ports: { ...owner.ports, clock: new FastForwardClock(1) } });
  await callCurator(context, ({ curator }) => curator.checkHealth({}));
  expect(owner.host.records).toEqual([
    {
      kind: 'warn',
      code: 'curator-retrying',
      text: 'etcd accepts no requests at the moment, as while its members elect a leader; trying again for up to 1m',
    },
  ]);
});
