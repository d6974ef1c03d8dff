import { mapConcurrently } from '../../internal/cleanup/index.ts';
import { NETWORK_NAMESPACE } from '../../internal/config/index.ts';
import type { KubernetesFacts } from '../../internal/doctor/index.ts';
import {
  isPodReady,
  KubeError,
  listBlockedDeployments,
  listBudgets,
  listNodes,
  listPods,
  listReleases,
  listServersCaChanges,
  listTerminatingNamespaces,
  listUnavailableApis,
  listWebhookServices,
  readinessOf,
  readPreviousLog,
  readPodWarning,
  SERVERS_CA_CONFIG_MAP,
  type HelmRelease,
  type KubeClient,
  type KubeNode,
  type KubePod,
} from '../../internal/kube/index.ts';
import { lastErrorLine } from '../../internal/lasterror/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { podReason } from '../charts/index.ts';

/** For this many pods that are not ready, the warnings and the last words of their containers are read too. */
const MAX_EXAMINED = 20;
const AT_ONCE = 4;
const MAX_CHARS = 300;
/** The namespaces of the cluster's own pods. The logs of other pods are not read, because secrets may be in them. */
const OWN_NAMESPACES = new Set(['kube-system', NETWORK_NAMESPACE]);
/** Reasons for which a container waits, and which a longer wait does not cure. */
const FAILURES =
  /^(CrashLoopBackOff|ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|CreateContainerConfigError|CreateContainerError|RunContainerError)$/;
/** The kubelet cannot create the network of a pod. */
const NO_SANDBOX = 'FailedCreatePodSandBox';

/**
 * Reads what the Kubernetes API knows.
 * @param ownInputs inputs of the charts of the configuration (see `readOwnInputs`)
 * @throws KubeError
 */
export async function readKubernetes(
  client: KubeClient,
  ownInputs: ReadonlyMap<string, string>,
  signal: AbortSignal,
): Promise<KubernetesFacts> {
  const [nodes, pods, budgets, releases, serversCas, failures] = await Promise.all([
    listNodes(client, signal),
    listPods(client, { signal }),
    listBudgets(client, signal),
    // Viewers may not read Secrets, and install no charts.
    unlessRefused(listReleases(client, signal)),
    listServersCaChanges(client, signal),
    readFailures(client, signal),
  ]);
  const reasons = await examinePods(client, pods, signal);
  return {
    nodes: nodes.map(nodeFrom),
    pods: pods.map((pod) => podFrom(pod, reasons.get(pod))),
    budgets: budgets.map(({ metadata, status }) => ({
      namespace: metadata.namespace,
      name: metadata.name,
      expectedPods: status.expectedPods,
      healthyPods: status.currentHealthy,
      allowed: status.disruptionsAllowed,
    })),
    ...(releases && { releases: releases.map((each) => releaseFrom(each, ownInputs)) }),
    serversCas: serversCas.map((each) => ({ ...each })),
    failures,
  };
}

/** Without the hash of the inputs: it could confirm a guess of a secret value. */
function releaseFrom(
  { inputs, ...release }: HelmRelease,
  ownInputs: ReadonlyMap<string, string>,
): NonNullable<KubernetesFacts['releases']>[number] {
  const own = ownInputs.get(`${release.namespace}/${release.name}`);
  return { ...release, ...(own !== undefined && inputs !== undefined && { isAsConfigured: own === inputs }) };
}

async function readFailures(
  client: KubeClient,
  signal: AbortSignal,
): Promise<NonNullable<KubernetesFacts['failures']>> {
  const [webhooks, apis, namespaces, deployments] = await Promise.all([
    unlessRefused(listWebhookServices(client, signal)),
    unlessRefused(listUnavailableApis(client, signal)),
    unlessRefused(listTerminatingNamespaces(client, signal)),
    unlessRefused(listBlockedDeployments(client, signal)),
  ]);
  return {
    ...(webhooks && { webhooks: webhooks.map((each) => ({ ...each })) }),
    ...(apis && { apis: apis.map((each) => ({ ...each })) }),
    ...(namespaces && { namespaces: namespaces.map((each) => ({ ...each })) }),
    ...(deployments && { deployments: deployments.map((each) => ({ ...each })) }),
  };
}

/** The result of a request; undefined if the operator has no right to make it. */
async function unlessRefused<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof KubeError && error.code === 'kube-refused') return undefined;
    throw error;
  }
}

/** What Kubernetes says about pods that are not ready: the newest warning, and why a container of the cluster's own ended. */
interface PodReasons {
  readonly warning: string | undefined;
  readonly lastWords: string | undefined;
}

async function examinePods(
  client: KubeClient,
  pods: readonly KubePod[],
  signal: AbortSignal,
): Promise<ReadonlyMap<KubePod, PodReasons>> {
  const notReady = pods.filter((pod) => !isPodReady(pod)).toSorted((a, b) => rankOf(a) - rankOf(b));
  const examined = await mapConcurrently(notReady.slice(0, MAX_EXAMINED), AT_ONCE, async (pod) => {
    // Another program may delete the pod meanwhile, and not every operator may read events and logs.
    const orNone = (asked: Promise<string | undefined>) =>
      asked.catch((error: unknown) => {
        if (error instanceof KubeError) return undefined;
        throw error;
      });
    const container = crashedContainer(pod);
    const { namespace, name } = pod.metadata;
    const lastWords =
      container === undefined || rankOf(pod) > 0
        ? undefined
        : whyEnded(await orNone(readPreviousLog(client, { namespace, pod: name, container }, signal)));
    return [pod, { warning: await orNone(readPodWarning(client, pod, signal)), lastWords }] as const;
  });
  return new Map(examined);
}

/** The line of a log in which a program says why it ended; undefined without a line. */
function whyEnded(log: string | undefined): string | undefined {
  const lines = (log ?? '').split('\n').filter((line) => line.trim() !== '');
  const known = lastErrorLine(lines);
  if (known !== undefined || lines.length === 0) return known;
  // Other programs, such as CoreDNS, have their own ways to mark an error.
  const line = lines.findLast((each) => /error|fatal|panic/i.test(each)) ?? lines.at(-1) ?? '';
  return printable(line.trim(), { maxChars: MAX_CHARS });
}

/** The cluster's own pods first. */
function rankOf({ metadata }: KubePod): number {
  return OWN_NAMESPACES.has(metadata.namespace) ? 0 : 1;
}

function crashedContainer({ status }: KubePod): string | undefined {
  return [...status.initContainerStatuses, ...status.containerStatuses].find(
    ({ state }) =>
      state.waiting?.reason === 'CrashLoopBackOff' ||
      (state.terminated !== undefined && state.terminated.exitCode !== 0),
  )?.name;
}

function nodeFrom(node: KubeNode): KubernetesFacts['nodes'][number] {
  const { ready: isReady, why } = readinessOf(node);
  const { conditions, nodeInfo } = node.status;
  return {
    ...{ name: node.metadata.name, isReady, why },
    pressures: conditions
      .filter(({ type, status }) => type.endsWith('Pressure') && status === 'True')
      .map(({ type }) => printable(type)),
    kubeletVersion: printable(nodeInfo.kubeletVersion),
  };
}

function podFrom(pod: KubePod, reasons: PodReasons | undefined): KubernetesFacts['pods'][number] {
  const { namespace, name, labels, creationTimestamp } = pod.metadata;
  const isReady = isPodReady(pod);
  const serversCaReadMs = readsServersCa(pod) ? oldestStartMs(pod) : undefined;
  return {
    ...{ namespace, name, isReady, node: pod.spec.nodeName },
    app: printable(labels['k8s-app'] ?? ''),
    createdMs: Date.parse(creationTimestamp) || 0,
    why: isReady ? '' : whyNotReady(pod, reasons),
    ...(!isReady && { isFailing: isFailing(pod, reasons) }),
    ...(serversCaReadMs !== undefined && { serversCaReadMs }),
  };
}

function whyNotReady(pod: KubePod, reasons: PodReasons | undefined): string {
  const said = reasons?.lastWords === undefined ? '' : `: ${reasons.lastWords}`;
  const reason = printable(podReason(pod)) + said;
  // The scheduler's warning has the same text as its condition, and a crash is told better by the container.
  const isTold = said !== '' || /^unschedulable|CrashLoopBackOff/.test(reason);
  return isTold || reasons?.warning === undefined ? reason : `${reason} (${reasons.warning})`;
}

/** Whether Kubernetes reports a failure of the pod that a longer wait does not cure. */
function isFailing({ status }: KubePod, reasons: PodReasons | undefined): boolean {
  return (
    [...status.initContainerStatuses, ...status.containerStatuses].some(({ state }) =>
      FAILURES.test(state.waiting?.reason ?? ''),
    ) ||
    // A pod with scheduling gates waits for the program that removes them.
    status.conditions.some(
      ({ type, status: is, reason }) =>
        type === 'PodScheduled' && is === 'False' && reason !== 'SchedulingGated',
    ) ||
    reasons?.warning?.startsWith(NO_SANDBOX) === true
  );
}

/** Whether a pod mounts the CA of API servers, as every pod with a service account token does. */
function readsServersCa({ spec }: KubePod): boolean {
  return spec.volumes.some(({ configMap, projected }) =>
    [configMap, ...(projected?.sources ?? []).map((source) => source.configMap)].some(
      (each) => each?.name === SERVERS_CA_CONFIG_MAP,
    ),
  );
}

/** The start of the container that has been running longest in a pod; undefined if none runs. */
function oldestStartMs({ status }: KubePod): number | undefined {
  const starts = [...status.initContainerStatuses, ...status.containerStatuses]
    .map(({ state }) => Date.parse(state.running?.startedAt ?? ''))
    .filter((ms) => Number.isFinite(ms));
  return starts.length === 0 ? undefined : Math.min(...starts);
}
