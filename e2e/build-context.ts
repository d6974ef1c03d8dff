import { arch, availableParallelism, homedir, totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import { env } from 'node:process';
import { FetchHttp, type BuildContext, type BuildReporter } from '../internal/bundlebuild/index.ts';
import { SystemClock } from '../internal/clock/index.ts';
import { ExecaRunner } from '../internal/exec/index.ts';
import { DiskFiles, DiskStreams } from '../internal/file/index.ts';

const ROOT = resolve(import.meta.dirname, '..');
/** The cache of the CLI. */
export const CACHE = join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'cluster');
/** The least time between two lines about a step. */
const UPDATE_MS = 30_000;

/**
 * Everything that tests need to build bundles: access to files, programs and HTTP, and the cache that the CLI uses
 * too.
 */
export function createBuildContext({
  signal,
  say,
}: {
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
}): BuildContext {
  return {
    reporter: reporterTo(say),
    ports: {
      files: new DiskFiles(),
      streams: new DiskStreams(),
      commands: new ExecaRunner({ path: env['PATH'] ?? '' }),
      clock: new SystemClock(),
      http: new FetchHttp(),
    },
    cache: CACHE,
    sources: {
      charts: join(ROOT, 'cli/charts'),
      programs: join(ROOT, 'internal/bundlebuild/programs'),
    },
    machine: {
      architecture: arch() === 'arm64' ? 'arm64' : 'amd64',
      cores: availableParallelism(),
      memoryBytes: totalmem(),
    },
    env,
    signal,
  };
}

function reporterTo(say: (text: string) => void): BuildReporter {
  const clock = new SystemClock();
  return {
    say: (_, text) => say(text),
    step: (_, title, work) => {
      say(`${title} …`);
      let last = clock.monotonicMs();
      return work({
        update: (text) => {
          if (clock.monotonicMs() - last < UPDATE_MS) return;
          last = clock.monotonicMs();
          say(`  ${text}`);
        },
      });
    },
  };
}
