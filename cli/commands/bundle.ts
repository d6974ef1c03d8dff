import type { Command } from 'commander';
import { DEFAULT_KUBERNETES_VERSION } from '../../internal/bundle/index.ts';
import type { ActionBinder } from '../app/command.ts';
import { webUrl } from './flags.ts';

interface VersionFlag {
  readonly kubernetesVersion: string;
}

interface BuildFlags extends VersionFlag {
  readonly rebuild?: true;
  /** True without a value. */
  readonly useReleases?: string | true;
}

interface FetchFlags extends VersionFlag {
  readonly lock?: string;
  readonly mirror?: string;
}

const VERSION_FLAG = '--kubernetes-version <version>';
const useCases = () => import('../bundle/index.ts');

/** `cluster bundle …`: the files that nodes run, on this machine. */
export function register(bundle: Command, action: ActionBinder): void {
  const verb = (name: string, description: string): Command =>
    bundle
      .command(name)
      .description(description)
      .option(VERSION_FLAG, 'Kubernetes version', DEFAULT_KUBERNETES_VERSION);
  verb('build', 'build the bundle from pinned Go modules; resumes an interrupted build')
    .option('--rebuild', 'rebuild all components, including existing ones')
    .option(
      '--use-releases [mirror]',
      'use upstream programs whose pinned hash matches, where reachable',
      webUrl,
    )
    .action(
      action<BuildFlags>(async (context, { kubernetesVersion, rebuild, useReleases: from }) =>
        (await useCases()).runBundleBuild(context, {
          kubernetesVersion,
          rebuild: rebuild === true,
          ...(from === undefined ? {} : { releases: { mirror: from === true ? undefined : from } }),
        }),
      ),
    );
  verb('fetch', 'assemble the bundle from files published by upstream projects')
    .option('--lock <file>', 'file with known hashes (default: bundle.lock.json in the cache)')
    .option('--mirror <url>', 'mirror with one directory per upstream host', webUrl)
    .action(
      action<FetchFlags>(async (context, { kubernetesVersion, lock, mirror }) =>
        (await useCases()).runBundleFetch(context, { kubernetesVersion, lockFile: lock, mirror }),
      ),
    );
  verb('verify', 'verify the hash of every component').action(
    action<VersionFlag>(async (context, options) => (await useCases()).runBundleVerify(context, options)),
  );
  verb('sbom', 'print the software bill of materials of a bundle (CycloneDX 1.6)').action(
    action<VersionFlag>(async (context, options) => (await useCases()).runBundleSbom(context, options)),
  );
  bundle
    .command('outdated')
    .description('compare pinned Go modules with newer releases and known vulnerabilities')
    .action(action(async (context) => (await useCases()).runBundleOutdated(context)));
  bundle
    .command('ls')
    .description('list bundles, or the components of one bundle')
    .option(VERSION_FLAG, 'list the components of this version')
    .action(
      action<Partial<VersionFlag>>(async (context, { kubernetesVersion }) =>
        (await useCases()).runBundleList(context, { kubernetesVersion }),
      ),
    );
}
