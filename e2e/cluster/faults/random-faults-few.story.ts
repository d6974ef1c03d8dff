import assert from 'node:assert/strict';
import { env } from 'node:process';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { injectRandomFaults } from './random-faults.ts';

const COUNT = 5;

/** BLIND_SEED=N repeats a run. */
const seed = Number(env['BLIND_SEED'] ?? Date.now() % 1_000_000);

/** What of random-faults.story.ts continuous integration has time for; another seed each time. */
await test(`${COUNT} random faults: the CLI names the right cause first`, async (story) => {
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
