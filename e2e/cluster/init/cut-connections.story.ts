import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { initOverFaultyConnection } from './cut-connections.ts';

await test('the CLI reconnects after every closed, reset or silent connection in each phase and misses no event', async (story) => {
  await using bench = await createHarness();
  const report = await initOverFaultyConnection(bench, 'wires', {
    stalls: ['control-plane'],
    deaf: { phase: 'consensus', ms: 30_000 },
    asleepMs: 30_000,
  });
  story.diagnostic(JSON.stringify(report));
});
