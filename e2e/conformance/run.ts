import { createWriteStream } from 'node:fs';
import { mkdir, readFile, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env } from 'node:process';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { versionsFor } from '../../internal/bundle/index.ts';
import { buildConformance, type ConformanceBuild } from './build.ts';
import { createBuildContext } from '../build-context.ts';
import { parseJunit, withMissing, type SpecResult } from './results.ts';
import { focusOf, parseSpecNames, selectSpecs, type Selection } from './specs.ts';
import { submissionDirectory, writeSubmission } from './submission.ts';
import type { TestBed } from './test-bed.ts';

const QUICK = join(import.meta.dirname, 'quick-specs.txt');
const RUN_MS = 24 * 3600_000;
const LIST_MS = 120_000;

/** The options of a run, and the directory for its files. */
export interface RunOptions {
  readonly kubernetesVersion: string;
  readonly selection: Selection;
  readonly procs: number;
  /** The directory that gets the files of the submission, below `v1.37/cluster`. */
  readonly directory: string;
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
}

/** Specs that can run: the built tests, and the names that were selected. */
export interface PreparedRun {
  readonly build: ConformanceBuild;
  readonly names: readonly string[];
}

/** Builds the tests unless the cache has them, and selects the specs. */
export async function prepareRun(options: RunOptions): Promise<PreparedRun> {
  const { kubernetesVersion, directory, selection } = options;
  const build = await buildConformance(createBuildContext(options), {
    kubernetesVersion,
    directory: join(directory, 'programs'),
  });
  const listed = await commands().run({
    argv: [build.programs.tests, '--list-tests'],
    env: environment(),
    timeoutMs: LIST_MS,
    signal: options.signal,
  });
  const names = selectSpecs(parseSpecNames(listed.stdout), selection, await readQuickSpecs());
  if (names.length === 0) throw new TypeError('no conformance spec has been selected');
  return { build, names };
}

/** The names of quick specs of the default release, for `--quick`. */
export async function readQuickSpecs(): Promise<readonly string[]> {
  return (await readFile(QUICK, 'utf8')).split('\n').filter((line) => line !== '');
}

/** Runs the selected specs on a cluster. Specs that may not run beside others run at the end, one after the other. */
export async function runSpecs(
  options: RunOptions,
  { build, names }: PreparedRun,
  bed: Pick<TestBed, 'kubeconfig'>,
): Promise<readonly SpecResult[]> {
  const { kubernetesVersion, procs, signal } = options;
  const directory = submissionDirectory(options.directory, kubernetesVersion);
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const log = createWriteStream(join(directory, 'e2e.log'));
  const progress = new Progress(names.length, options.say);
  await commands().run({
    argv: [
      build.programs.ginkgo,
      // -v writes a line for each spec that has ended.
      ...[`--procs=${procs}`, '--no-color', '--timeout=24h', '-v'],
      ...names.map((name) => `--focus=${focusOf(name)}`),
      ...[build.programs.tests, '--', `--kubeconfig=${bed.kubeconfig}`, `--report-dir=${directory}`],
      ...[`--kubectl-path=${build.programs.kubectl}`, '--provider=skeleton', '--disable-log-dump'],
    ],
    env: environment(),
    cwd: directory,
    timeoutMs: RUN_MS,
    // 1: a spec has failed; the report says which.
    okExitCodes: [0, 1],
    onLine: (line) => {
      log.write(`${line}\n`);
      progress.read(line);
    },
    signal,
  });
  await new Promise((done) => log.end(done));
  const report = await readFile(join(directory, 'junit_01.xml'), 'utf8').catch(() => '');
  const results = withMissing(parseJunit(report), names);
  const { own: productVersion } = versionsFor(kubernetesVersion);
  await writeSubmission(directory, { kubernetesVersion, productVersion, results });
  return results;
}

/** Counts the specs in the output of the runner: each ends with a line such as `• [7.123 seconds]`. */
class Progress {
  readonly #total: number;
  readonly #say: (text: string) => void;
  #ended = 0;

  constructor(total: number, say: (text: string) => void) {
    this.#total = total;
    this.#say = say;
  }

  read(line: string): void {
    const [, failed] = /^• (\[FAILED\] )?\[[\d.]+ seconds\]/.exec(line) ?? [];
    if (!line.startsWith('• ')) return;
    this.#ended += 1;
    if (failed !== undefined || this.#ended % 10 === 0 || this.#ended === this.#total)
      this.#say(`${this.#ended} of ${this.#total} specs${failed === undefined ? '' : ': one failed'}`);
  }
}

function commands(): ExecaRunner {
  return new ExecaRunner({ path: env['PATH'] ?? '' });
}

/** The environment without variables for proxies, because the tests connect to the machines directly. */
function environment(): Record<string, string> {
  return { PATH: env['PATH'] ?? '', HOME: homedir() };
}
