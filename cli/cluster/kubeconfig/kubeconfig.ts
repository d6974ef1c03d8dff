import { dirname, resolve } from 'node:path';
import { mergeKubeconfig } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { layoutOf } from '../../workspace/index.ts';
import { openWorkspace } from '../open-workspace.ts';
import { lacksKubeconfig, readKubeconfig, restoreKubeconfig } from './kubeconfig-file.ts';
import { readCaller } from '../curator/caller.ts';
import { currentKubeAccess } from './renew-kubeconfig.ts';

const MAX_KUBECONFIG_BYTES = 4 * 1024 * 1024;

/**
 * `cluster kubeconfig`: prints the kubeconfig of the workspace, or merges it into that of the user. A kubeconfig that the command
 * has changed is not printed for people, because its private key would stay on the screen.
 */
export async function runKubeconfig(
  context: CommandContext,
  options: { readonly merge: boolean; readonly isChanged?: boolean; readonly home: string },
): Promise<void> {
  const layout = layoutOf(context.paths.workspace);
  const caller = await readCaller(context);
  const clusterName = await caller.readName();
  const name = clusterName === '' ? caller.clusterId : clusterName;
  const { files } = context.ports;
  if (caller.kind === 'owner' && (await lacksKubeconfig(files, layout))) await recreate(context, clusterName);
  const access = await currentKubeAccess(context);
  const text = await readKubeconfig(files, layout);
  if (!options.merge) {
    context.host.result({ path: layout.kubeconfig, kubeconfig: text }, () =>
      options.isChanged === true ? `Next: KUBECONFIG=${layout.kubeconfig} kubectl get nodes` : text.trimEnd(),
    );
    return;
  }
  // kubectl follows a symbolic link, too, such as one into a repository of settings.
  const { path } = await files.resolveTarget(targetPath(context, options.home));
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

/** Creates the kubeconfig again from the result of the init. */
async function recreate(context: CommandContext, name: string): Promise<void> {
  const { kubeconfig } = layoutOf(context.paths.workspace);
  await using workspace = await openWorkspace(context, 'cluster kubeconfig');
  await restoreKubeconfig(context, workspace, name);
  context.host.warn('kubeconfig-recreated', `${kubeconfig} was missing or empty and was created again`);
}

/**
 * The file that kubectl writes: the first one of $KUBECONFIG, or ~/.kube/config. The file of the workspace itself is not meant: who works with
 * it, as the tutorial does, has it in $KUBECONFIG.
 */
function targetPath(context: CommandContext, home: string): string {
  const { kubeconfig: own } = layoutOf(context.paths.workspace);
  const first = (context.env['KUBECONFIG'] ?? '')
    .split(':')
    .find((each) => each !== '' && resolve(each) !== resolve(own));
  return first === undefined ? resolve(home, '.kube', 'config') : resolve(first);
}
