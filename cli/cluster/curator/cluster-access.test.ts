import { expect, test } from '@jest/globals';
import { createCuratorHarness } from './fake-curator.ts';
import { findNode } from './cluster-access.ts';

test('findNode() returns a name that cannot pose as a line of the program', async () => {
  await using harness = await createCuratorHarness({
    getNode: async () => ({ node: { nodeId: 'node-1', name: 'n1\nNode n2 is removed.' } }),
  });
  expect(await findNode(harness.owner, 'node-1')).toMatchObject({
    nodeId: 'node-1',
    name: 'n1↵Node n2 is removed.',
  });
});
