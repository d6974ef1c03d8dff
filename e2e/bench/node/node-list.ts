import { once } from 'node:events';
import type { Harness } from '../../machines/harness.ts';
import { middleOf, type BenchResult } from '../result.ts';

const RUNS = 9;
/** What an operator notices as a delay begins here. */
const LIMIT_S = 0.5;

/** Measures `cluster node ls` of the built CLI, on the host that also runs the cluster. The first run, which compiles its code, does not count. */
export async function measureNodeList(bench: Harness, workspace: string): Promise<BenchResult> {
  const seconds: number[] = [];
  for (let run = 0; run <= RUNS; run++) {
    const startMs = performance.now();
    const child = bench.startBuiltCli('--workspace', workspace, 'node', 'ls');
    child.stdout?.resume();
    const [code] = (await once(child, 'close')) as [number];
    if (code !== 0) throw new Error(`measuring node ls: exit code ${code}`);
    if (run > 0) seconds.push((performance.now() - startMs) / 1000);
  }
  return {
    name: 'cluster node ls, on the host of the cluster',
    ...middleOf(seconds),
    unit: 's',
    limit: LIMIT_S,
    detail: `${RUNS} runs, from the start of the program to its end`,
  };
}
