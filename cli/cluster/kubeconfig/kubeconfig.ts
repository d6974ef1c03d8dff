import { dirname, resolve } from 'node:path';
import { mergeKubeconfig } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { layoutOf } from '../../workspace/index.ts';
import { readKubeconfig } from './kubeconfig-file.ts';
import { readCaller } from '../curator/caller.ts';
import { currentKubeAccess } from './renew-kubeconfig.ts';

const MAX_KUBECONFIG_BYTES = 4 * 1024 * 1024;

/** `cluster kubeconfig`: prints the kubeconfig of the workspace, or merges it into that of the user. */
export async function runKubeconfig(
  context: CommandContext,
  options: { readonly merge: boolean; readonly home: string },
): Promise<void> {
  const layout = layoutOf(context.paths.workspace);
  const { kubernetes, clusterId } = await readCaller(context);
  const name = kubernetes?.clusterName ?? clusterId;
  const { files } = context.ports;
  const access = await currentKubeAccess(context);
  const text = await readKubeconfig(files, layout);
  if (!options.merge) {
    context.host.result({ path: layout.kubeconfig, kubeconfig: text }, () => text.trimEnd());
    return;
  }
  const path = targetPath(context, options.home);
  const raw = await files.read(path, MAX_KUBECONFIG_BYTES);
  const existing = raw === undefined ? undefined : { text: Buffer.from(raw).toString('utf8'), path };
  const merged = mergeKubeconfig(existing, { name, access });
  if (merged.context !== name) {
    context.host.warn(
      'kubeconfig-renamed',
      `${path} has a different context ${name}; the new context is ${merged.context}`,
    );
  }
  await files.makeDirectory(dirname(path));
  await files.writeAtomic(path, merged.text, { mode: 0o600 });
  context.host.result({ path, context: merged.context }, () =>
    [`Merged into ${path}.`, '', `Next: kubectl --context ${merged.context} get nodes`].join('\n'),
  );
}

/** The file that kubectl writes: the first one of $KUBECONFIG, or ~/.kube/config. */
function targetPath(context: CommandContext, home: string): string {
  const first = (context.env['KUBECONFIG'] ?? '').split(':').find((each) => each !== '');
  return first === undefined ? resolve(home, '.kube', 'config') : resolve(first);
}
