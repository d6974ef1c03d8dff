import { test } from 'node:test';
import { PHASES } from '../../../initproto/phases.ts';
import { createHarness } from '../../machines/harness.ts';
import { initOverFaultyConnection } from './cut-connections.ts';

/** The figures of the issue: dead in every phase, a machine that answers after a minute, ten minutes of sleep. */
await test('dead in every phase, deaf for a minute, asleep for ten: the CLI misses nothing', async (story) => {
  await using bench = await createHarness();
  const report = await initOverFaultyConnection(bench, 'wireslong', {
    stalls: PHASES.map(({ name }) => name),
    deaf: { phase: 'images', ms: 60_000 },
    asleepMs: 600_000,
  });
  story.diagnostic(JSON.stringify(report));
});
