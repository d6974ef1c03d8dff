import assert from 'node:assert/strict';
import { env } from 'node:process';
import { test } from 'node:test';
import { createBench } from '../machines/bench.ts';
import { injectBlindly } from './blind-faults.ts';

/** BLIND_SEED=N repeats a run, BLIND_COUNT=N shortens it. */
const seed = Number(env['BLIND_SEED'] ?? Date.now() % 1_000_000);
const count = Number(env['BLIND_COUNT'] ?? 25);
const WRONG_ALLOWED = 1;

await test(`${count} faults injected blind: the first cause named is the right one`, async (story) => {
  await using bench = await createBench();
  const table: string[] = [`seed ${seed}`];
  try {
    const { right } = await injectBlindly(bench, { seed, count, onEach: (line) => table.push(line) });
    table.push(`${right} of ${count} right`);
    assert.ok(right >= count - WRONG_ALLOWED, table.join('\n'));
  } finally {
    story.diagnostic(table.join('\n'));
  }
});
