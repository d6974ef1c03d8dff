import { printable } from '../../internal/printable/index.ts';
import {
  isPodReady,
  listEvents,
  listPods,
  type KubeClient,
  type KubePod,
} from '../../internal/kube/index.ts';

const MAX_PROBLEMS = 5;

/** Why pods of a release are not ready, one line for each of at most five pods: image, crash, scheduling, probes. */
export async function podProblems(
  client: KubeClient,
  release: { readonly name: string; readonly namespace: string },
  signal: AbortSignal,
): Promise<readonly string[]> {
  const [pods, events] = await Promise.all([
    listPods(client, { namespace: release.namespace, signal }),
    listEvents(client, release.namespace, signal),
  ]);
  const warnings = events.filter(({ type }) => type === 'Warning');
  return pods
    .filter((pod) => isOf(pod, release.name) && !isPodReady(pod))
    .slice(0, MAX_PROBLEMS)
    .map((pod) => {
      const last = warnings.findLast(({ involvedObject }) => involvedObject.name === pod.metadata.name);
      const event = last === undefined ? '' : ` (${last.reason}: ${last.message.slice(0, 200)})`;
      return printable(`pod ${pod.metadata.name}: ${podReason(pod)}${event}`);
    });
}

/** By convention charts label their resources with the release; without a label the name decides. */
function isOf(pod: KubePod, release: string): boolean {
  const instance = pod.metadata.labels['app.kubernetes.io/instance'] ?? pod.metadata.labels['release'];
  return instance === undefined ? pod.metadata.name.startsWith(release) : instance === release;
}

/** Why a pod is not ready, in a clause: image, crash, scheduling or probes. */
export function podReason({ status }: KubePod): string {
  for (const container of [...status.initContainerStatuses, ...status.containerStatuses]) {
    const { waiting, terminated } = container.state;
    if (waiting?.reason === 'CrashLoopBackOff') {
      return `container ${container.name} is in CrashLoopBackOff, ${container.restartCount} restarts`;
    }
    if (waiting !== undefined && /Image|Pull/.test(waiting.reason)) {
      return `container ${container.name} cannot pull its image: ${waiting.reason} ${waiting.message.slice(0, 200)}`.trim();
    }
    if (waiting !== undefined && waiting.reason !== '' && waiting.reason !== 'PodInitializing') {
      return `container ${container.name} is waiting: ${waiting.reason} ${waiting.message.slice(0, 200)}`.trim();
    }
    if (terminated !== undefined && terminated.exitCode !== 0) {
      return `container ${container.name} exited with code ${terminated.exitCode} ${terminated.reason}`.trim();
    }
  }
  const unscheduled = status.conditions.find(
    ({ type, status: is }) => type === 'PodScheduled' && is === 'False',
  );
  if (unscheduled !== undefined) return `unschedulable: ${unscheduled.message || unscheduled.reason}`;
  const running = status.containerStatuses.filter(({ ready }) => !ready).map(({ name }) => name);
  return running.length > 0 ? `${running.join(', ')} not ready` : status.phase || 'not started';
}
