import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { initOverFaultyConnection } from './cut-connections.ts';

await test('cut and reset in every phase, gone dead, deaf, asleep: one CLI attaches again each time and misses nothing', async (story) => {
  await using bench = await createHarness();
  const report = await initOverFaultyConnection(bench, 'wires', {
    stalls: ['control-plane'],
    deaf: { phase: 'consensus', ms: 30_000 },
    asleepMs: 30_000,
  });
  story.diagnostic(JSON.stringify(report));
});
