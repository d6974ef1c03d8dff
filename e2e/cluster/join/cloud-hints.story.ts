import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { buildAwsMock } from './metadata-service.ts';
import { playHints } from './play-hints.ts';

await test('a cloud can suggest the name and the labels of a node, but decides nothing', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'hints');
  await playHints(story, { bench, cluster, mock: await buildAwsMock(bench, cluster) });
});
