import { expect, test } from '@jest/globals';
import { createCuratorHarness, type FakeCuratorCalls } from '../../cluster/curator/fake-curator.ts';
import { fakeNode } from '../model/fake-observations.ts';
import { Collector } from './collector.ts';

test('Collector shows a list of nodes only when it is complete, and forgets deleted ones', async () => {
  const curator: FakeCuratorCalls = {
    watchNodes: async function* (_request, { signal }) {
      yield { relist: true, nodes: [fakeNode(0), fakeNode(1)], caughtUp: true };
      yield { relist: true, nodes: [fakeNode(0)], caughtUp: false };
      yield { nodes: [fakeNode(1), fakeNode(2)], caughtUp: true };
      yield { deletedNodeIds: [fakeNode(0).nodeId] };
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    },
  };
  await using harness = await createCuratorHarness(curator, { listAudit: async function* () {} });
  const stopping = new AbortController();
  const seen: string[] = [];
  const done = Promise.withResolvers<void>();
  const collector = await Collector.open({ ...harness.owner, signal: stopping.signal }, () => {
    const names = collector.observations.nodes.value?.map(({ name }) => name).join();
    if (names === undefined || names === seen.at(-1)) return;
    seen.push(names);
    if (names === 'n2,n3') done.resolve();
  });
  const running = collector.run().catch((error: unknown) => error);
  await done.promise;
  stopping.abort(new Error('the test has ended'));
  await running;
  expect(seen).toEqual(['n1,n2', 'n1,n2,n3', 'n2,n3']);
});
