import { z } from 'zod';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { PORTS } from '../../../internal/endpoint/index.ts';
import { kubectl } from '../kubectl.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';

const STEP = 'kube-proxy-probe';
const NAME = 'kube-proxy';
const TARGET = ['--namespace', 'kube-system', 'daemonset', NAME] as const;
/**
 * kubeadm writes no probe, so a kube-proxy that hangs would never be restarted. `/livez` also fails if the rules of this node have not
 * been updated for two minutes. The rules of a node stay as they are meanwhile, so a minute is soon enough. A stopped process does not
 * react to SIGTERM.
 */
const PROBE = {
  httpGet: { path: '/livez', port: PORTS.kubeProxyHealth },
  ...{ periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6, terminationGracePeriodSeconds: 5 },
};

const daemonSetShape = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        containers: z.array(z.object({ name: z.string(), livenessProbe: z.unknown().optional() })),
      }),
    }),
  }),
});

/**
 * Gives kube-proxy a liveness probe, once, on all nodes: also in clusters of earlier releases and in restored ones. A probe of the
 * operators stays.
 */
export async function addKubeProxyProbe(
  { commands, checkpoints }: { readonly commands: CommandRunner; readonly checkpoints: StepCheckpoints },
  signal: AbortSignal,
): Promise<void> {
  if (await checkpoints.isDone(STEP, PROBE)) return;
  const found = await kubectl(commands, ['get', ...TARGET, '--ignore-not-found', '--output', 'json'], signal);
  if (found.trim() === '') return; // the operators run something else
  const { spec } = daemonSetShape.parse(JSON.parse(found));
  const container = spec.template.spec.containers.find(({ name }) => name === NAME);
  if (container !== undefined && container.livenessProbe === undefined) {
    // Without the version of the object, which changes with each status of its pods.
    const patch = { spec: { template: { spec: { containers: [{ name: NAME, livenessProbe: PROBE }] } } } };
    await kubectl(commands, ['patch', ...TARGET, '--patch', JSON.stringify(patch)], signal);
  }
  await checkpoints.record(STEP, PROBE);
}
