import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { StoryCluster } from '../harness/story-cluster.ts';
import { MotoMock } from './metadata-service.ts';
import { playHints } from './play-hints.ts';

await test('the metadata service of moto can suggest name and labels of a node, but decides nothing', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, 'hints');
  await using mock = await MotoMock.install(bench, cluster);
  await playHints(story, { bench, cluster, mock });
});
