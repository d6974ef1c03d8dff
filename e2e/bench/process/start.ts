import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { execPath } from 'node:process';
import { median, ratioOf, type BenchResult } from '../result.ts';

const DIST = join(import.meta.dirname, '../../../dist');
const ROUNDS = 9;
const STARTS = 10;
const LIMIT = 2;

interface Cost {
  readonly wallMs: number;
  readonly cpuMs: number;
}

/**
 * Measures the time and CPU of the shipped CLI until it has answered, alternately with a Node process that
 * does nothing.
 */
export function runStartBench(): Promise<readonly BenchResult[]> {
  const program = join(DIST, 'cluster/main.mjs');
  const variants: Readonly<Record<string, readonly string[]>> = {
    '--version': [execPath, program, '--version'],
    '--help': [execPath, program, '--help'],
    'init --help': [execPath, program, 'init', '--help'],
    'completion bash': [execPath, program, 'completion', 'bash'],
    ...executable(),
  };
  const nothing: Cost[] = [];
  const costs = new Map(Object.keys(variants).map((name) => [name, [] as Cost[]]));
  for (let round = 0; round < ROUNDS; round++) {
    nothing.push(costOf([execPath, '-e', '0']));
    for (const [name, argv] of Object.entries(variants)) costs.get(name)?.push(costOf(argv));
  }
  return Promise.resolve(
    [...costs].flatMap(([name, found]) => [
      compared(`cluster ${name}, CPU`, 'cpuMs', found, nothing),
      compared(`cluster ${name}, time`, 'wallMs', found, nothing),
    ]),
  );
}

/** The command line of the single executable, if it was built (`npm run build -- --sea`). */
function executable(): Readonly<Record<string, readonly string[]>> {
  const path = join(DIST, `cluster-linux-${process.arch === 'x64' ? 'amd64' : process.arch}`);
  return existsSync(path) ? { '--version (single executable)': [path, '--version'] } : {};
}

function compared(
  name: string,
  what: keyof Cost,
  ours: readonly Cost[],
  theirs: readonly Cost[],
): BenchResult {
  const [mine, nothing] = [ours.map((cost) => cost[what]), theirs.map((cost) => cost[what])];
  const detail = `${median(mine).toFixed(1)} ms; \`node -e 0\` ${median(nothing).toFixed(1)} ms`;
  return { name, ...ratioOf(mine, nothing), limit: LIMIT, detail };
}

/**
 * The mean cost of several starts in a row. The shell's own record has the CPU time of its ended children
 * (proc(5), stat 16 and 17).
 */
function costOf(argv: readonly string[]): Cost {
  const script = `for n in $(seq ${STARTS}); do "$@" > /dev/null || exit 1; done; cat /proc/$$/stat`;
  const startMs = performance.now();
  const stat = execFileSync('sh', ['-c', script, 'sh', ...argv], { encoding: 'utf8' });
  const wallMs = (performance.now() - startMs) / STARTS;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[13]) + Number(fields[14]);
  return { wallMs, cpuMs: (ticks * 10) / STARTS };
}
