import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { patternOf, type Mutation } from './rows.ts';

/** A mutated test that runs longer hangs, which is no verdict. */
const LIMIT_MS = 300_000;

/** Whether the named tests turned red. */
export type Verdict =
  | { readonly isRed: true }
  /** `green`: the titles whose tests pass although the code is mutated; empty without a verdict. */
  | { readonly isRed: false; readonly why: string; readonly green: readonly string[] };

/** Tests of one file: those that ran, and those that failed. */
interface TestRun {
  readonly passed: readonly string[];
  readonly failed: readonly string[];
}

/**
 * Applies each mutation to a copy of the tree and runs its tests, one after the other. The tree itself is never changed; the copy
 * is removed at the end and on SIGINT and SIGTERM.
 */
export async function* runMutations(
  root: string,
  mutations: readonly Mutation[],
): AsyncGenerator<{ readonly mutation: Mutation; readonly verdict: Verdict }> {
  if (mutations.length === 0) return;
  const copy = copyTree(root);
  const stop = (): never => {
    // A test that still runs would write into the copy while it is removed.
    for (const child of running) child.kill('SIGKILL');
    removeCopy(copy);
    process.exit(130);
  };
  process.on('SIGINT', stop).on('SIGTERM', stop);
  try {
    const files = new Set(mutations.map(({ test }) => test));
    for (const test of files) {
      const those = mutations.filter((mutation) => mutation.test === test);
      const titles = [...new Set(those.flatMap(({ red }) => red))];
      const before = await runTests(copy, test, titles);
      for (const mutation of those) yield { mutation, verdict: await verdictOf(copy, mutation, before) };
    }
  } finally {
    removeCopy(copy);
    process.off('SIGINT', stop).off('SIGTERM', stop);
  }
}

async function verdictOf(copy: string, mutation: Mutation, before: TestRun | undefined): Promise<Verdict> {
  const { file, find, replace, red, test } = mutation;
  const refuse = (why: string, green: readonly string[] = []): Verdict => ({ isRed: false, why, green });
  if (before === undefined) return refuse(`${test} does not run`);
  const absent = red.filter((title) => !before.passed.some((each) => isTitled(each, title)));
  if (absent.length > 0) return refuse(`no test passes without the mutation: ${absent.join(', ')}`);
  if (mutation.by === 'types' && !compiles(copy, test)) return refuse(`${test} does not compile`);
  const path = join(copy, file);
  const text = readFileSync(path, 'utf8');
  const parts = text.split(find);
  if (parts.length !== 2) return refuse(`its text occurs ${parts.length - 1} times in ${file}`);
  writeFileSync(path, parts.join(replace));
  try {
    if (mutation.by === 'types') return compiles(copy, test) ? refuse('it compiles') : { isRed: true };
    const after = await runTests(copy, test, red);
    if (after === undefined) return refuse('the mutated code does not load, or hangs');
    const green = red.filter((title) => !after.failed.some((each) => isTitled(each, title)));
    return green.length === 0 ? { isRed: true } : refuse(`stays green: ${green.join(', ')}`, green);
  } finally {
    writeFileSync(path, text);
  }
}

/** Whether a test has this title, or one that contains it. */
function isTitled(name: string, title: string): boolean {
  return new RegExp(patternOf(title)).test(name);
}

/** The tests that run now. */
const running = new Set<ChildProcess>();

function removeCopy(copy: string): void {
  rmSync(copy, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}

/** The tracked and new files of the tree, with its installed packages. */
function copyTree(root: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'cluster-mutations-'));
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: root });
  for (const path of listed.toString().split('\0')) {
    if (path !== '' && existsSync(join(root, path))) cpSync(join(root, path), join(copy, path));
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

/** Whether the compiler accepts the test and what it imports. */
function compiles(copy: string, test: string): boolean {
  const settings = {
    extends: './tsconfig.json',
    files: [test],
    include: [],
    compilerOptions: { incremental: false },
  };
  const project = join(copy, 'tsconfig.mutation.json');
  writeFileSync(project, JSON.stringify(settings));
  const compiler = ['node_modules/typescript/lib/tsc.js', '-p', project];
  return spawnSync(process.execPath, compiler, { cwd: copy, stdio: 'ignore' }).status === 0;
}

/** Runs the tests with these titles; undefined when the file does not load or does not end. */
async function runTests(copy: string, test: string, titles: readonly string[]): Promise<TestRun | undefined> {
  if (test.endsWith('.story.ts')) return runStory(copy, test);
  const report = join(copy, 'mutation-report.json');
  rmSync(report, { force: true });
  const jest = ['node_modules/jest/bin/jest.js', '--watchman=false', '--maxWorkers=1', '--forceExit'];
  const child = spawn(
    process.execPath,
    [
      ...['--experimental-vm-modules', '--disable-warning=ExperimentalWarning', ...jest],
      ...['--selectProjects', test.endsWith('.itest.ts') ? 'integration' : 'unit'],
      ...['--json', '--outputFile', report, '--testNamePattern', titles.map(patternOf).join('|')],
      ...['--runTestsByPath', test],
    ],
    { cwd: copy, stdio: 'ignore', timeout: LIMIT_MS, killSignal: 'SIGKILL' },
  );
  await ended(child);
  if (!existsSync(report)) return undefined;
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as {
    readonly testResults: readonly {
      readonly assertionResults: readonly { readonly title: string; readonly status: string }[];
    }[];
  };
  const tests = testResults.flatMap(({ assertionResults }) => assertionResults);
  const of = (status: string): readonly string[] =>
    tests.filter((each) => each.status === status).map(({ title }) => title);
  const run = { passed: of('passed'), failed: of('failed') };
  return run.passed.length + run.failed.length === 0 ? undefined : run;
}

/** Runs a story, all of it: one that needs no machines, or it would take minutes. */
async function runStory(copy: string, test: string): Promise<TestRun | undefined> {
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', '--test-reporter=spec', test],
    { cwd: copy, stdio: ['ignore', 'pipe', 'ignore'], timeout: LIMIT_MS, killSignal: 'SIGKILL' },
  );
  let log = '';
  child.stdout.on('data', (chunk: Buffer) => (log += chunk.toString('utf8')));
  await ended(child);
  const run = readStory(log);
  return run.passed.length + run.failed.length === 0 ? undefined : run;
}

/** The tests in the log of a story: lines such as "  ✔ refuses others (1.5ms)". */
export function readStory(log: string): TestRun {
  const of = (symbol: string): readonly string[] => {
    const line = new RegExp(`^ *${symbol} (.+) \\([0-9.]+m?s\\)$`, 'gm');
    return [...new Set([...log.matchAll(line)].map(([, title = '']) => title))];
  };
  return { passed: of('✔'), failed: of('✖') };
}

async function ended(child: ChildProcess): Promise<void> {
  running.add(child);
  await new Promise((resolve, reject) => child.on('close', resolve).on('error', reject));
  running.delete(child);
}
