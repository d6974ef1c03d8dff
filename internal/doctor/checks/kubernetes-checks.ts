import { formatDuration } from '../../clock/index.ts';
import { counted } from '../../printable/index.ts';
import { NETWORK_CHART, NETWORK_NAMESPACE } from '../../config/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import type { ClusterFacts, FactsPart, KubernetesFacts } from '../cluster-facts.ts';
import { judgeMembers, judgePart, notMeasured, type Observe } from '../observe.ts';
import { POD_START_MS } from '../thresholds.ts';

const SYSTEM_NAMESPACE = 'kube-system';
const PROXY_APP = 'kube-proxy';
const DNS_APP = 'kube-dns';
/** The maximum number of findings that name one pod each. One finding counts the pods above this number. */
const MAX_LISTED = 20;
/**
 * The maximum number of pods of one namespace that a sentence names. The sentence ends with the count of the others.
 */
const MAX_NAMED = 5;

type Pod = KubernetesFacts['pods'][number];

/** Whether each kubelet responds through the API server, and reports its node as ready. */
export const kubelet: Observe = (facts) => {
  const threshold = 'responds, node Ready';
  const { kubernetes, kubelets } = facts;
  return judgeMembers(facts, threshold, ({ name }) => {
    const seen = { subject: `kubelet of ${name}`, node: name, threshold };
    if (!kubernetes.ok) return [notMeasured(seen, 'the Kubernetes API could not be read')];
    const found = kubernetes.value.nodes.find((each) => each.name === name);
    if (found === undefined)
      return [{ ...seen, figure: 'not registered', problem: failed(`node ${name} is not in Kubernetes`) }];
    const silent = silenceOf(kubelets.find(({ node }) => node === name)?.answer);
    if (silent !== undefined) {
      const cause = `the kubelet of ${name} does not respond: ${silent}`;
      return [{ ...seen, figure: 'does not respond', problem: failed(cause) }];
    }
    const cause = found.isReady ? undefined : `the kubelet of ${name} is not ready: ${found.why}`;
    const figure = found.isReady ? 'responds, node Ready' : 'NotReady';
    return [{ ...seen, figure, problem: failed(cause) }];
  });
};

/**
 * Returns why a kubelet does not respond. Returns undefined if RBAC forbids the operator to query kubelets, because
 * this is no problem of the kubelet.
 */
function silenceOf(answer: FactsPart<unknown> | undefined): string | undefined {
  return answer === undefined || answer.ok || answer.codes.includes('kube-refused')
    ? undefined
    : answer.error;
}

/** Whether a node reports a condition such as DiskPressure. */
export const pressure: Observe = ({ kubernetes }) => {
  const threshold = 'no pressure';
  return judgePart(kubernetes, { subject: 'nodes', threshold }, ({ nodes }) =>
    nodes.map(({ name, pressures }) => {
      const figure = pressures.join(', ') || threshold;
      const cause = pressures.length === 0 ? undefined : `node ${name} reports ${figure}`;
      return { subject: name, node: name, figure, threshold, problem: failed(cause) };
    }),
  );
};

/** Whether each node has a ready pod of the network chart. */
export const network: Observe = (facts) => {
  const { charts, kubernetes } = facts;
  const pods = kubernetes.ok ? kubernetes.value.pods.filter(isNetwork) : [];
  // A cluster with another network has neither the chart nor its pods.
  if (kubernetes.ok && pods.length === 0 && charts?.includes(NETWORK_CHART) !== true)
    return [{ subject: 'network chart', figure: 'another network', threshold: 'a ready pod, if installed' }];
  return podOnEachNode(facts, 'pod of the network chart', isNetwork);
};

/** Whether each node has a ready kube-proxy. */
export const proxy: Observe = (facts) => podOnEachNode(facts, 'kube-proxy', isProxy);

function podOnEachNode(
  { kubernetes }: ClusterFacts,
  what: string,
  belongs: (pod: Pod) => boolean,
): readonly Observation[] {
  const threshold = 'a ready pod';
  return judgePart(kubernetes, { subject: what, threshold }, ({ nodes, pods }) =>
    nodes.map(({ name }) => {
      const own = pods.filter((pod) => pod.node === name && belongs(pod));
      const seen = { subject: `${what} on ${name}`, node: name, threshold };
      if (own.some(({ isReady }) => isReady)) return { ...seen, figure: 'ready' };
      const why = own[0]?.why ?? 'the node has no such pod';
      return { ...seen, figure: 'not ready', problem: failed(`no ready ${what} on node ${name}: ${why}`) };
    }),
  );
}

/** Whether CoreDNS serves. */
export const dns: Observe = ({ kubernetes }) => {
  const threshold = 'at least 1 ready';
  return judgePart(kubernetes, { subject: 'CoreDNS', threshold }, ({ pods }) => {
    const own = pods.filter(isDns);
    const ready = own.filter(({ isReady }) => isReady).length;
    const why = own.find(({ isReady }) => !isReady)?.why ?? 'the cluster has no such pod';
    const figure = `${ready} of ${own.length} ready`;
    const cause = `no CoreDNS pod is ready: ${why}`;
    return [{ subject: 'CoreDNS', figure, threshold, problem: failed(ready === 0 ? cause : undefined) }];
  });
};

/** Whether all pods are ready that `network`, `proxy` and `dns` do not judge. */
export const pods: Observe = ({ kubernetes, takenMs }) => {
  const threshold = `all ready within ${formatDuration(POD_START_MS)}`;
  return judgePart(kubernetes, { subject: 'pods', threshold }, ({ pods: all }) => {
    const others = all.filter((pod) => !isNetwork(pod) && !isProxy(pod) && !isDns(pod));
    const notReady = others.filter(({ isReady }) => !isReady);
    const wrong = notReady.filter(({ createdMs }) => takenMs - createdMs > POD_START_MS);
    const starting = notReady.length - wrong.length;
    const ready = `${others.length - notReady.length} of ${others.length} ready`;
    const figure = starting === 0 ? ready : `${ready}, ${starting} starting`;
    if (wrong.length === 0) return [{ subject: 'pods', figure, threshold }];
    const listed = wrong.slice(0, MAX_LISTED).map(({ namespace, name, node, why }) => ({
      ...{ subject: `pod ${namespace}/${name}`, figure: 'not ready', threshold },
      ...(node !== '' && { node }),
      problem: warned(`pod ${namespace}/${name} is not ready: ${why}`),
    }));
    if (wrong.length <= MAX_LISTED) return listed;
    const more = `${wrong.length - MAX_LISTED} more pods are not ready`;
    return [...listed, { subject: 'pods', figure, threshold, problem: warned(more) }];
  });
};

/** Finds pods whose programs may still trust a replaced CA, because most programs read the CA only when they start. */
export const serversCa: Observe = ({ kubernetes, takenMs }) => {
  const threshold = 'started after the CA of API servers changed';
  const subject = 'pods that mount the CA of API servers';
  return judgePart(kubernetes, { subject, threshold }, ({ pods: all, serversCas }) => {
    if (serversCas === undefined)
      return [notMeasured({ subject, threshold }, 'the facts do not contain when the CA changed')];
    const changes = new Map(serversCas.map(({ namespace, changedMs }) => [namespace, changedMs]));
    const isOlder = ({ namespace, serversCaReadMs }: Pod): boolean =>
      (serversCaReadMs ?? Infinity) < (changes.get(namespace) ?? 0);
    const older = Map.groupBy(all.filter(isOlder), ({ namespace }) => namespace);
    if (older.size === 0) return [{ subject, figure: 'all have the current CA', threshold }];
    return [...older].slice(0, MAX_LISTED).map(([namespace, found]) => {
      const names = found.slice(0, MAX_NAMED).map(({ name }) => name);
      const more = found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : '';
      const ago = formatDuration(takenMs - (changes.get(namespace) ?? takenMs));
      const cause = `${counted(found.length, 'pod')} in ${namespace} started before the CA of API servers changed ${ago} ago: ${names.join(', ')}${more}`;
      const figure = `${counted(found.length, 'older pod')}`;
      return { subject: `pods in ${namespace}`, figure, threshold, problem: warned(cause) };
    });
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
      ...{ subject: `budget ${namespace}/${name}`, figure: '0 evictions permitted', threshold },
      problem: warned(
        `budget ${namespace}/${name} permits no eviction, although all of its ${expectedPods} pods are healthy`,
      ),
    }));
  });
};

/** Whether each chart that was installed from the workspace has a deployed release in the cluster. */
export const chart: Observe = ({ charts, kubernetes }) => {
  const threshold = 'deployed';
  if (charts === undefined) return [{ subject: 'charts', figure: 'none from this workspace', threshold }];
  if (charts.length === 0) return [{ subject: 'charts', figure: 'none installed', threshold }];
  return judgePart(kubernetes, { subject: 'charts', threshold }, ({ releases }) =>
    charts.map((name) => {
      const found = releases.find((each) => each.name === name);
      const seen = { subject: `chart ${name}`, threshold };
      if (found === undefined) {
        const cause = `chart ${name} was installed from this workspace and has no release in the cluster`;
        return { ...seen, figure: 'no release', problem: failed(cause) };
      }
      const figure = `${found.status}, revision ${found.revision}`;
      const cause = `the release of chart ${name} is ${figure}`;
      return { ...seen, figure, problem: warned(found.status === 'deployed' ? undefined : cause) };
    }),
  );
};

function isNetwork({ namespace }: Pod): boolean {
  return namespace === NETWORK_NAMESPACE;
}

function isProxy({ namespace, app }: Pod): boolean {
  return namespace === SYSTEM_NAMESPACE && app === PROXY_APP;
}

function isDns({ namespace, app }: Pod): boolean {
  return namespace === SYSTEM_NAMESPACE && app === DNS_APP;
}
