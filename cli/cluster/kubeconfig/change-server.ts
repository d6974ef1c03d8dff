import { KubeClient, renderKubeconfig } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { layoutOf } from '../../workspace/index.ts';
import { readCaller } from '../curator/caller.ts';
import { currentKubeAccess } from './renew-kubeconfig.ts';

/**
 * Writes another API server into the kubeconfig of the workspace, after it has responded with a certificate of the cluster. A
 * kubeconfig names one server only, so `kubectl` stops working when the machine of that server is off.
 * @param server "https://HOST:PORT"
 * @throws KubeError `kube-unreachable` and others if the server does not respond; nothing is written then
 */
export async function changeServer(context: CommandContext, server: string): Promise<void> {
  const { files } = context.ports;
  const { kubeconfig: path } = layoutOf(context.paths.workspace);
  const { clusterId, readName } = await readCaller(context);
  const name = await readName();
  const access = { ...(await currentKubeAccess(context)), server };
  using client = new KubeClient(access, context.ports);
  await client.getText('/readyz', context.signal);
  await files.writeAtomic(path, renderKubeconfig(name === '' ? clusterId : name, access), {
    mode: 0o600,
  });
  context.host.say('kubeconfig-server', `${path} now names the API server ${server}.`, { path, server });
}
