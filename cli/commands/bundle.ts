import type { Command } from 'commander';
import { DEFAULT_KUBERNETES_VERSION } from '../../internal/bundle/index.ts';
import type { ActionBinder } from '../app/command.ts';

interface VersionFlag {
  readonly kubernetesVersion: string;
}

interface BuildFlags extends VersionFlag {
  readonly rebuild?: true;
}

interface FetchFlags extends VersionFlag {
  readonly lock?: string;
  readonly mirror?: string;
}

const VERSION_FLAG = '--kubernetes-version <version>';

/** `cluster bundle …`: everything that nodes are made of, on this machine. */
export function register(program: Command, action: ActionBinder): void {
  const bundle = program
    .command('bundle')
    .description('everything that nodes are made of, as verified files');
  const verb = (name: string, description: string): Command =>
    bundle
      .command(name)
      .description(description)
      .option(VERSION_FLAG, 'its version', DEFAULT_KUBERNETES_VERSION);
  verb('build', 'make it from the Go modules of the pinned versions; goes on where it was interrupted')
    .option('--rebuild', 'make everything anew, also what is there')
    .action(
      action<BuildFlags>(async (context, { kubernetesVersion, rebuild }) => {
        const { runBundleBuild } = await import('../bundle/index.ts');
        return runBundleBuild(context, { kubernetesVersion, rebuild: rebuild === true });
      }),
    );
  verb('fetch', 'make it from the files that upstream projects publish')
    .option('--lock <file>', 'file that holds hashes seen before; default: bundle.lock.json in the cache')
    .option('--mirror <url>', "server with upstream's files below the names of upstream's hosts")
    .action(
      action<FetchFlags>(async (context, { kubernetesVersion, lock, mirror }) => {
        const { runBundleFetch } = await import('../bundle/index.ts');
        return runBundleFetch(context, {
          kubernetesVersion,
          ...(lock === undefined ? {} : { lockFile: lock }),
          ...(mirror === undefined ? {} : { mirror }),
        });
      }),
    );
  verb('verify', 'hash every component again and name what is missing or damaged').action(
    action<VersionFlag>(async (context, options) =>
      (await import('../bundle/index.ts')).runBundleVerify(context, options),
    ),
  );
  bundle
    .command('ls')
    .description('bundles on this machine, or the components of one')
    .option(VERSION_FLAG, 'show the components of this one')
    .action(
      action<Partial<VersionFlag>>(async (context, { kubernetesVersion }) =>
        (await import('../bundle/index.ts')).runBundleList(context, { kubernetesVersion }),
      ),
    );
}
