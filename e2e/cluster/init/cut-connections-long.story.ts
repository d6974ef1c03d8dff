import { test } from 'node:test';
import { PHASES } from '../../../initproto/phases.ts';
import { createHarness } from '../../machines/harness.ts';
import { initOverFaultyConnection } from './cut-connections.ts';

/**
 * The long durations: a silent connection in every phase, a machine that does not respond for a minute, and a
 * workstation that sleeps for ten minutes.
 */
await test('the CLI misses no event with a silent connection in every phase, an unresponsive machine for a minute and a suspended workstation for ten', async (story) => {
  await using bench = await createHarness();
  const report = await initOverFaultyConnection(bench, 'wireslong', {
    stalls: PHASES.map(({ name }) => name),
    deaf: { phase: 'images', ms: 60_000 },
    asleepMs: 600_000,
  });
  story.diagnostic(JSON.stringify(report));
});
