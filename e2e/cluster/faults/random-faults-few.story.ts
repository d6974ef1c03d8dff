import assert from 'node:assert/strict';
import { env } from 'node:process';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { injectRandomFaults } from './random-faults.ts';

const COUNT = 5;

/** BLIND_SEED=N repeats a run with the same faults. */
const seed = Number(env['BLIND_SEED'] ?? Date.now() % 1_000_000);

/** A short version of random-faults.story.ts for continuous integration, with another seed each time. */
await test(`the CLI reports the right cause first for each of ${COUNT} random faults`, async (story) => {
  await using bench = await createHarness();
  const table: string[] = [`seed ${seed}`];
  const { right } = await injectRandomFaults(bench, {
    seed,
    count: COUNT,
    onEach: (line) => table.push(line),
  });
  story.diagnostic(table.join('\n'));
  assert.equal(right, COUNT, table.join('\n'));
});
