import { formatDuration } from '../../clock/index.ts';
import { counted } from '../../printable/index.ts';
import { NETWORK_CHART, NETWORK_NAMESPACE } from '../../config/index.ts';
import { failed, warned, type Observation } from '../../preflight/index.ts';
import type { ClusterFacts, FactsPart, KubernetesFacts, NodeFacts } from '../cluster-facts.ts';
import { judgeListed, judgeMembers, judgePart, notMeasured, type Observe } from '../observe.ts';
import { POD_FAILING_MS } from '../thresholds.ts';

const SYSTEM_NAMESPACE = 'kube-system';
const PROXY_APP = 'kube-proxy';
const DNS_APP = 'kube-dns';
/**
 * The maximum number of pods of one namespace that a sentence names. The sentence ends with the count of the others.
 */
const MAX_NAMED = 5;
/** How Kubernetes says that a kubelet has not renewed its lease (its node lifecycle controller). */
const STOPPED = /stopped posting node status/i;

type Pod = KubernetesFacts['pods'][number];

/** Why a list of failures is missing. */
export const NOT_READ =
  'the operator may not read these objects, or the facts were saved by an earlier version';

/** Whether each kubelet responds through the API server, and reports its node as ready. */
export const kubelet: Observe = (facts) => {
  const threshold = 'responds, node Ready';
  const { kubernetes, kubelets } = facts;
  return judgeMembers(facts, threshold, (node) => {
    const { name } = node;
    const seen = { subject: `kubelet of ${name}`, node: name, threshold };
    if (!kubernetes.ok) return [notMeasured(seen, 'the Kubernetes API could not be read')];
    const found = kubernetes.value.nodes.find((each) => each.name === name);
    if (found === undefined)
      return [{ ...seen, figure: 'not registered', problem: failed(`node ${name} is not in Kubernetes`) }];
    const silent = silenceOf(kubelets.find(({ node }) => node === name)?.answer);
    if (silent !== undefined && isCutOff(node, found)) {
      const cause = `the kubelet of ${name} runs, and does not reach an API server (${found.why}): ${silent}`;
      return [{ ...seen, figure: 'does not reach an API server', problem: failed(cause) }];
    }
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
 * Whether a kubelet answers the agent on its own node, and tells no API server anything. It does not respond through an API server either,
 * because it asks one whether the caller may.
 */
function isCutOff(
  { health, machine }: NodeFacts,
  { isReady, why }: KubernetesFacts['nodes'][number],
): boolean {
  const runs = health === 'healthy' && machine?.services.some(({ name }) => name === 'kubelet') === false;
  return runs && !isReady && STOPPED.test(why);
}

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
export const dns: Observe = ({ kubernetes, takenMs }) => {
  const threshold = 'at least 1 ready, none failing';
  return judgePart(kubernetes, { subject: 'CoreDNS', threshold }, ({ pods }) => {
    const own = pods.filter(isDns);
    const ready = own.filter(({ isReady }) => isReady).length;
    const waiting = own.filter(({ isReady }) => !isReady);
    const failing = waiting.find((pod) => hasFailed(pod, takenMs));
    const why = (failing ?? waiting[0])?.why ?? 'the cluster has no such pod';
    const figure = `${ready} of ${own.length} ready`;
    const problem =
      ready === 0
        ? failed(`no CoreDNS pod is ready: ${why}`)
        : warned(failing && `CoreDNS pod ${failing.name} is not ready: ${failing.why}`);
    return [{ subject: 'CoreDNS', figure, threshold, problem }];
  });
};

/** Whether the services respond that API servers ask before they admit an object. */
export const webhook: Observe = ({ kubernetes }) => {
  const threshold = 'a ready endpoint';
  return judgePart(kubernetes, { subject: 'webhooks', threshold }, ({ failures }) => {
    const all = failures?.webhooks;
    if (all === undefined) return [notMeasured({ subject: 'webhooks', threshold }, NOT_READ)];
    const wrong = all.filter(({ readyEndpoints }) => readyEndpoints === 0);
    const figure = `${all.length - wrong.length} of ${all.length} have one`;
    if (wrong.length === 0) return [{ subject: 'webhooks', figure, threshold }];
    const judge = ({ name, service, isRequired }: (typeof wrong)[number]): Observation => {
      const effect = isRequired
        ? 'API servers refuse every request that it must admit'
        : 'API servers wait for it, and then admit requests that it has not seen';
      const cause = `webhook ${name} cannot respond, because its service ${service} has no ready endpoint: ${effect}`;
      const seen = { subject: `webhook ${name}`, figure: 'no ready endpoint', threshold };
      return { ...seen, problem: isRequired ? failed(cause) : warned(cause) };
    };
    return judgeListed(wrong, judge, { subject: 'webhooks', threshold, words: 'webhooks cannot respond' });
  });
};

/** Whether the parts of the Kubernetes API respond that other servers answer. */
export const api: Observe = ({ kubernetes }) => {
  const threshold = 'available';
  return judgePart(kubernetes, { subject: 'API services', threshold }, ({ failures }) => {
    const wrong = failures?.apis;
    if (wrong === undefined) return [notMeasured({ subject: 'API services', threshold }, NOT_READ)];
    if (wrong.length === 0) return [{ subject: 'API services', figure: 'all available', threshold }];
    const judge = ({ name, why }: (typeof wrong)[number]): Observation => ({
      ...{ subject: `API ${name}`, figure: 'not available', threshold },
      problem: failed(`API ${name} is not available: ${why}`),
    });
    return judgeListed(wrong, judge, { subject: 'API services', threshold, words: 'APIs are not available' });
  });
};

/** Whether Kubernetes reports a failure of a pod, and the pod had time to recover from failures of its start. */
export function hasFailed({ isFailing, createdMs }: Pod, takenMs: number): boolean {
  return isFailing === true && takenMs - createdMs > POD_FAILING_MS;
}

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
    const judge = ([namespace, found]: [string, Pod[]]): Observation => {
      const names = found.slice(0, MAX_NAMED).map(({ name }) => name);
      const more = found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : '';
      const ago = formatDuration(takenMs - (changes.get(namespace) ?? takenMs));
      const cause = `${counted(found.length, 'pod')} in ${namespace} started before the CA of API servers changed ${ago} ago: ${names.join(', ')}${more}`;
      const figure = `${counted(found.length, 'older pod')}`;
      return { subject: `pods in ${namespace}`, figure, threshold, problem: warned(cause) };
    };
    return judgeListed([...older], judge, { subject, threshold, words: 'namespaces have such pods' });
  });
};

/** Whether a pod belongs to the network chart. */
export function isNetwork({ namespace }: Pod): boolean {
  return namespace === NETWORK_NAMESPACE;
}

/** Whether a pod is a kube-proxy. */
export function isProxy({ namespace, app }: Pod): boolean {
  return namespace === SYSTEM_NAMESPACE && app === PROXY_APP;
}

/** Whether a pod is a CoreDNS. */
export function isDns({ namespace, app }: Pod): boolean {
  return namespace === SYSTEM_NAMESPACE && app === DNS_APP;
}
