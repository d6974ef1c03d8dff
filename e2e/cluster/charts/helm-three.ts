import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  ensureToolchain,
  GoBuilder,
  type BuildContext,
  type GoModuleRecipe,
} from '../../../internal/bundlebuild/index.ts';

/** The Helm of the bundles of earlier releases. */
const HELM_THREE: GoModuleRecipe = {
  id: 'helm-three',
  from: { kind: 'modules', modules: ['helm.sh/helm/v3@v3.22.0'] },
  programs: { helm: 'helm.sh/helm/v3/cmd/helm' },
  ...{ tags: [], ldflags: ['-X helm.sh/helm/v3/internal/version.version=v3.22.0'], cgo: false },
};

/** Builds Helm 3 from its Go module. Returns the path of the program, below the directory. */
export async function buildHelmThree(context: BuildContext, directory: string): Promise<string> {
  const work = join(directory, 'helm-three');
  await mkdir(work);
  return context.reporter.step('helm-three', 'Building Helm 3', async (progress) => {
    const builder = new GoBuilder(context, {
      goroot: await ensureToolchain(context, progress),
      directory: work,
    });
    const built = await builder.build(await builder.prepare(HELM_THREE), () => undefined);
    const program = built.get('helm');
    if (program === undefined) throw new TypeError('the build has no helm');
    return program;
  });
}
