import { test } from 'node:test';
import { createBench } from '../machines/bench.ts';
import { followOverBadCable } from './cut-wires.ts';

await test('cut and reset in every phase, gone dead, deaf, asleep: one CLI attaches again each time and misses nothing', async (story) => {
  await using bench = await createBench();
  const report = await followOverBadCable(bench, 'wires', {
    stalls: ['control-plane'],
    deaf: { phase: 'consensus', ms: 30_000 },
    asleepMs: 30_000,
  });
  story.diagnostic(JSON.stringify(report));
});
