import { waitForApi, waitForNodeReady, type KubeClient } from '../../../internal/kube/index.ts';
import type { CommandContext } from '../../app/command.ts';

const API_MS = 5 * 60 * 1000;
const NODE_MS = 5 * 60 * 1000;

/** The API of the new cluster must be reachable from here: charts are installed from here. */
export async function awaitApi(context: CommandContext, client: KubeClient): Promise<void> {
  const { host, ports, signal } = context;
  await host.step('init-api', `Reaching the Kubernetes API at ${client.server}`, (progress) =>
    waitForApi(client, {
      clock: ports.clock,
      signal,
      timeoutMs: API_MS,
      onWait: (text) => progress.update(text),
    }),
  );
}

/** A node is Ready once the pod network runs on it. */
export async function awaitNode(context: CommandContext, client: KubeClient, name: string): Promise<void> {
  const { host, ports, signal } = context;
  await host.step('init-node-ready', `Waiting for node ${name} to be Ready`, (progress) =>
    waitForNodeReady(client, name, {
      clock: ports.clock,
      signal,
      timeoutMs: NODE_MS,
      onWait: (text) => progress.update(text),
    }),
  );
}
