import type { CommandContext } from '../app/command.ts';

/** Checks or builds the bundle before any machine is created. */
export async function prepareBundle(
  context: CommandContext,
  options: { readonly kubernetesVersion?: string; readonly build?: true },
): Promise<void> {
  const { buildContext } = await import('../bundle/index.ts');
  const { buildBundle, openBundleCache } = await import('../../internal/bundlebuild/index.ts');
  const { DEFAULT_KUBERNETES_VERSION } = await import('../../internal/bundle/index.ts');
  const kubernetesVersion = options.kubernetesVersion ?? DEFAULT_KUBERNETES_VERSION;
  const bundle = buildContext(context);
  if (options.build === true) await buildBundle(bundle, { kubernetesVersion });
  else await openBundleCache(bundle).read(kubernetesVersion, bundle.machine.architecture);
}
