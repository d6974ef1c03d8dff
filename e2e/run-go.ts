import { join } from 'node:path';
import { ensureToolchain } from '../internal/bundlebuild/index.ts';
import { createBuildContext } from './build-context.ts';

const LIMIT_MS = 1_200_000;

/** Options of the go command. */
export interface GoOptions {
  /** A directory with a go.mod. */
  readonly cwd: string;
  /** GOFLAGS. By default, a go.mod or go.sum that lacks something fails. */
  readonly flags?: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * Runs the go command of the toolchain that builds bundles, without cgo. An installed Go of this machine is never
 * used, because it may be missing or have another version. Shares the cache of modules and compiled packages with the
 * builds of bundles. Returns what the command printed, without white space around it.
 */
export async function runGo(
  args: readonly string[],
  { cwd, flags = '-mod=readonly', timeoutMs = LIMIT_MS, signal = AbortSignal.timeout(timeoutMs) }: GoOptions,
): Promise<string> {
  const context = createBuildContext({ signal, say: () => undefined });
  const root = await context.reporter.step('go', 'Downloading Go', (progress) =>
    ensureToolchain(context, progress),
  );
  const { PATH = '/usr/bin:/bin', HOME = '/' } = context.env;
  const { stdout } = await context.ports.commands.run({
    argv: [join(root, 'bin/go'), ...args],
    cwd,
    env: {
      ...{ PATH, HOME, GOROOT: root, GOTOOLCHAIN: 'local', GOFLAGS: flags, CGO_ENABLED: '0' },
      ...{ GOMODCACHE: join(context.cache, 'go/mod'), GOCACHE: join(context.cache, 'go/build') },
    },
    timeoutMs,
    signal,
  });
  return stdout.trim();
}
