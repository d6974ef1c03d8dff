import assert from 'node:assert/strict';
import { env, stdout } from 'node:process';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { injectRandomFaults } from './random-faults.ts';

/** BLIND_SEED=N repeats a run with the same faults; BLIND_COUNT=N sets their number. */
const seed = Number(env['BLIND_SEED'] ?? Date.now() % 1_000_000);
const count = Number(env['BLIND_COUNT'] ?? 25);
const WRONG_ALLOWED = 1;

await test(`the CLI reports the right cause first for each of ${count} random faults`, async (story) => {
  await using bench = await createHarness();
  // Prints each result at once, so that an interrupted run shows its results so far.
  const onEach = (line: string): void => void stdout.write(`${line}\n`);
  onEach(`seed ${seed}`);
  const { right } = await injectRandomFaults(bench, { seed, count, onEach });
  story.diagnostic(`seed ${seed}: ${right} of ${count} right`);
  assert.ok(right >= count - WRONG_ALLOWED, `${right} of ${count} right`);
});
