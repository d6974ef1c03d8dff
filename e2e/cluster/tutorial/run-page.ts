import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { StoryCluster } from '../harness/story-cluster.ts';
import { shellBlocks } from './shell-blocks.ts';
import type { Workstation } from './workstation.ts';

const PAGES = join(import.meta.dirname, '../../../docs/tutorial');

/** Runs after the block with a title, in addition to the check of the exit codes. */
export type Checks = Readonly<Record<string, () => Promise<void> | void>>;

/**
 * Runs every block of commands of a page of the tutorial in its order. The page has the addresses 10.0.0.21, 10.0.0.22 …; they
 * stand for those of the machines.
 */
export async function runPage(
  story: TestContext,
  page: string,
  bench: {
    readonly cluster: StoryCluster;
    readonly machines: readonly string[];
    readonly workstation: Workstation;
  },
  checks: Checks,
): Promise<void> {
  const blocks = shellBlocks(await readFile(join(PAGES, page), 'utf8'));
  const addresses = await Promise.all(bench.machines.map((machine) => bench.cluster.address(machine)));
  for (const { title, script } of blocks) {
    const run = script.replace(/\b10\.0\.0\.2(\d)\b/g, (text, n: string) => addresses[Number(n) - 1] ?? text);
    // A step needs those before it, so the first failure ends the story.
    await bench.workstation
      .run(run)
      .catch((error: unknown) => assert.fail(`${page}, ${title}: ${String(error)}`));
    await story.test(`${page}: ${title}`, () => checks[title]?.());
  }
  await story.test(`each check belongs to a step of ${page}`, () => {
    const titles = new Set(blocks.map(({ title }) => title));
    assert.deepEqual(
      Object.keys(checks).filter((title) => !titles.has(title)),
      [],
    );
  });
}
