import { waitForApi, waitForNodeReady, type KubeClient } from '../../../internal/kube/index.ts';
import type { CommandContext, StepProgress } from '../../app/command.ts';

const TIMEOUT_MS = 5 * 60 * 1000;

/** Waits until the Kubernetes API can be reached from this workstation, which installs the charts. */
export async function awaitApi(context: CommandContext, client: KubeClient): Promise<void> {
  await context.host.step('init-api', `Waiting for the Kubernetes API at ${client.server}`, (progress) =>
    waitForApi(client, waitOptions(context, progress)),
  );
}

/** Waits until the node is Ready, which requires a pod network. */
export async function awaitNode(context: CommandContext, client: KubeClient, name: string): Promise<void> {
  await context.host.step('init-node-ready', `Waiting for node ${name} to become Ready`, (progress) =>
    waitForNodeReady(client, name, waitOptions(context, progress)),
  );
}

function waitOptions({ ports, signal }: CommandContext, progress: StepProgress) {
  const onWait = (text: string): void => progress.update(text);
  return { clock: ports.clock, signal, timeoutMs: TIMEOUT_MS, onWait };
}
