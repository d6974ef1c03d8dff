import { formatDuration } from '../../clock/index.ts';
import { counted } from '../../printable/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import type { KubernetesFacts } from '../cluster-facts.ts';
import { judgeListed, judgePart, notMeasured, type Observe } from '../observe.ts';
import { FINALIZER_MS, NAMESPACE_DELETION_MS, POD_START_MS } from '../thresholds.ts';
import { hasFailed, isDns, isNetwork, isProxy, NOT_READ } from './kubernetes-checks.ts';

/** Whether Kubernetes can create the pods of all deployments. */
export const deployment: Observe = ({ kubernetes }) => {
  const threshold = 'all pods created';
  return judgePart(kubernetes, { subject: 'deployments', threshold }, ({ failures }) => {
    const blocked = failures?.deployments;
    if (blocked === undefined) return [notMeasured({ subject: 'deployments', threshold }, NOT_READ)];
    if (blocked.length === 0) return [{ subject: 'deployments', figure: 'all pods created', threshold }];
    const judge = ({ namespace, name, wanted, created, why }: (typeof blocked)[number]): Observation => ({
      ...{ subject: `deployment ${namespace}/${name}`, figure: `${created} of ${wanted} pods`, threshold },
      problem: warned(
        `Kubernetes cannot create all pods of deployment ${namespace}/${name} (${created} of ${wanted}): ${why}`,
      ),
    });
    return judgeListed(blocked, judge, {
      ...{ subject: 'deployments', threshold, words: 'deployments do not have all pods' },
    });
  });
};

/** Whether the deletion of namespaces ends. */
export const namespace: Observe = ({ kubernetes, takenMs }) => {
  const threshold = `deleted within ${formatDuration(NAMESPACE_DELETION_MS)}`;
  return judgePart(kubernetes, { subject: 'namespaces', threshold }, ({ failures }) => {
    const all = failures?.namespaces;
    if (all === undefined) return [notMeasured({ subject: 'namespaces', threshold }, NOT_READ)];
    const stuck = all.filter(
      ({ sinceMs, waitsForFinalizers }) =>
        takenMs - sinceMs > (waitsForFinalizers ? FINALIZER_MS : NAMESPACE_DELETION_MS),
    );
    const figure = all.length === 0 ? 'none is being deleted' : `${all.length} being deleted`;
    if (stuck.length === 0) return [{ subject: 'namespaces', figure, threshold }];
    const judge = ({ name, sinceMs, why }: (typeof stuck)[number]): Observation => {
      const since = formatDuration(takenMs - sinceMs);
      const cause = `namespace ${name} has been terminating for ${since}: ${why || 'Kubernetes gives no reason'}`;
      return {
        subject: `namespace ${name}`,
        figure: `terminating for ${since}`,
        threshold,
        problem: warned(cause),
      };
    };
    return judgeListed(stuck, judge, {
      subject: 'namespaces',
      threshold,
      words: 'namespaces are terminating',
    });
  });
};

/** Whether all pods are ready that `network`, `proxy` and `dns` do not judge. */
export const pods: Observe = ({ kubernetes, takenMs }) => {
  const threshold = `all ready within ${formatDuration(POD_START_MS)}, none failing`;
  return judgePart(kubernetes, { subject: 'pods', threshold }, ({ pods: all }) => {
    const others = all.filter((pod) => !isNetwork(pod) && !isProxy(pod) && !isDns(pod));
    const notReady = others.filter(({ isReady }) => !isReady);
    const wrong = notReady.filter((pod) => hasFailed(pod, takenMs) || takenMs - pod.createdMs > POD_START_MS);
    const starting = notReady.length - wrong.length;
    const ready = `${others.length - notReady.length} of ${others.length} ready`;
    const figure = starting === 0 ? ready : `${ready}, ${starting} starting`;
    if (wrong.length === 0) return [{ subject: 'pods', figure, threshold }];
    const judge = ({ namespace, name, node, why }: (typeof wrong)[number]): Observation => ({
      ...{ subject: `pod ${namespace}/${name}`, figure: 'not ready', threshold },
      ...(node !== '' && { node }),
      problem: warned(`pod ${namespace}/${name} is not ready: ${why}`),
    });
    return judgeListed(wrong, judge, { subject: 'pods', threshold, words: 'pods are not ready' });
  });
};

/** Finds PodDisruptionBudgets that block a drain although all of their pods are healthy. */
export const budget: Observe = ({ kubernetes }) => {
  const threshold = 'at least 1 eviction permitted';
  return judgePart(kubernetes, { subject: 'budgets', threshold }, ({ budgets }) => {
    // A budget with unhealthy pods blocks only until the pods are healthy. A budget without pods blocks nothing.
    const blocking = budgets.filter(
      ({ expectedPods, healthyPods, allowed }) =>
        allowed === 0 && expectedPods > 0 && healthyPods >= expectedPods,
    );
    const figure = `${budgets.length - blocking.length} of ${budgets.length} permit evictions`;
    if (blocking.length === 0) return [{ subject: 'budgets', figure, threshold }];
    return blocking.map(({ namespace, name, expectedPods }) => ({
      ...{ subject: `PodDisruptionBudget ${namespace}/${name}`, figure: '0 evictions permitted', threshold },
      problem: warned(
        `PodDisruptionBudget ${namespace}/${name} permits no eviction, although all of its pods are healthy (${counted(expectedPods, 'pod')})`,
      ),
    }));
  });
};

/** Whether each chart that was installed from the workspace is deployed in the cluster as cluster.yaml says. */
export const chart: Observe = ({ charts, kubernetes }) => {
  const threshold = 'deployed as configured';
  if (charts === undefined) return [{ subject: 'charts', figure: 'none from this workspace', threshold }];
  if (charts.length === 0) return [{ subject: 'charts', figure: 'none installed', threshold }];
  return judgePart(kubernetes, { subject: 'charts', threshold }, ({ releases }) => {
    if (releases === undefined) return [notMeasured({ subject: 'charts', threshold }, NOT_READ)];
    return charts.map((name) => {
      const found = releases.find((each) => each.name === name);
      const seen = { subject: `chart ${name}`, threshold };
      if (found === undefined) {
        const cause = `chart ${name} was installed from this workspace and has no release in the cluster`;
        return { ...seen, figure: 'no release', problem: failed(cause) };
      }
      const figure = `${found.status}, revision ${found.revision}`;
      return { ...seen, figure, problem: warned(differenceOf(found)) };
    });
  });
};

type Release = NonNullable<KubernetesFacts['releases']>[number];

/** How a release differs from what the configuration says; undefined if it does not. */
function differenceOf(found: Release): string | undefined {
  const { name, status, revision, installedRevision, isAsConfigured } = found;
  const release = `the release of chart ${name}`;
  if (status !== 'deployed') return `${release} is ${status}, revision ${revision}`;
  if (installedRevision !== undefined && installedRevision !== revision)
    return `${release} was changed by another program: \`cluster init\` installed revision ${installedRevision}, the newest is ${revision}`;
  if (isAsConfigured === false) return `${release} differs from cluster.yaml`;
  return undefined;
}
