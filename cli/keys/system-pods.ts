import { NETWORK_CHART, NETWORK_NAMESPACE } from '../../internal/config/index.ts';
import { CodedError, describeError } from '../../internal/errors/index.ts';
import {
  readServersCa,
  restartForServersCa,
  type KubeClient,
  type Workload,
} from '../../internal/kube/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext, StepProgress } from '../app/command.ts';
import { currentKubeAccess, withKubernetes } from '../cluster/index.ts';

const POLL_MS = 2_000;
/** The controller manager writes the new CA into each namespace within seconds. */
const CA_MS = 60_000;

/** The workloads that init and the network chart create. */
const WORKLOADS: readonly Workload[] = [
  { kind: 'daemonsets', namespace: 'kube-system', name: 'kube-proxy' },
  { kind: 'deployments', namespace: 'kube-system', name: 'coredns' },
  { kind: 'daemonsets', namespace: NETWORK_NAMESPACE, name: NETWORK_CHART },
];

/**
 * Restarts the pods of the cluster itself after a rotation, so that they read the new CA of API servers. Kubernetes
 * restarts the pods of a workload one after the other; a second call for the same generation changes nothing. If the
 * restart fails, the user is warned: the key rotation is complete all the same, and `cluster doctor` names the pods.
 */
export async function restartSystemPods(context: CommandContext, generation: number): Promise<void> {
  const { host, signal } = context;
  const why = await host.step(
    'keys-pods',
    'Restarting kube-proxy, CoreDNS and the pod network',
    async (progress) => {
      try {
        return await withKubernetes(context, (client) => restart(context, { client, generation, progress }));
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof CodedError)) throw error;
        return printable(describeError(error));
      }
    },
  );
  if (why !== undefined)
    host.warn(
      'keys-pods-not-restarted',
      `kube-proxy, CoreDNS and the pod network were not restarted, and may accept API servers with certificates of the old CA: ${why}. Restart the pods that \`cluster doctor\` names.`,
    );
}

interface Restart {
  readonly client: KubeClient;
  readonly generation: number;
  readonly progress: StepProgress;
}

/** Returns the reason if the pods could not be restarted; otherwise undefined. @throws KubeError, ClusterError */
async function restart(
  context: CommandContext,
  { client, generation, progress }: Restart,
): Promise<string | undefined> {
  const { ports, signal } = context;
  // The kubeconfig has the new CA, because the rotation has already renewed it.
  const wanted = (await currentKubeAccess(context)).caPem.trim();
  const deadlineMs = ports.clock.monotonicMs() + CA_MS;
  for (const namespace of new Set(WORKLOADS.map((each) => each.namespace))) {
    // In a namespace that does not exist there is no CA to wait for.
    for (;;) {
      const found = await readServersCa(client, namespace, signal);
      if (found === undefined || found.trim() === wanted) break;
      const text = `new pods in ${namespace} still get another CA than the kubeconfig has`;
      if (ports.clock.monotonicMs() > deadlineMs) return text;
      progress.update(text);
      await ports.clock.sleep(POLL_MS, signal);
    }
  }
  for (const workload of WORKLOADS) await restartForServersCa(client, workload, { generation, signal });
  return undefined;
}
