import { get } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { firstEvent, type ApiClient } from './api-client.ts';

/** The namespace of everything that the measurements create. */
export const NAMESPACE = 'bench';
/** A namespace with many objects, for lists. */
const MANY = 'bench-many';
const MAPS = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`;
const DEPLOYMENT = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/rolled`;
const FEW_OBJECTS = 100;
const MANY_OBJECTS = 5_000;
const CREATED_AT_ONCE = 16;
const REPLICAS = 50;
const POLL_MS = 10;
const TRY_MS = 250;
const WAIT_MS = 180_000;
/**
 * An API server requests etcd's progress at most every 100 ms (`progressRequestPeriod`). A watch that is opened sooner after another one waits
 * for the rest of this time, which says something about the rounds of this benchmark only.
 */
const PROGRESS_MS = 250;
/** kube-proxy pauses for a second after each change of its rules (`minSyncPeriod`), for the same reason. */
const SYNC_MS = 1_500;

/** A cluster to measure: three control planes, and a worker that already has the images of the measurements. */
export interface Target {
  readonly client: ApiClient;
  /** Addresses of the control planes. */
  readonly hosts: readonly [string, string, string];
  readonly images: { readonly pause: string; readonly web: string };
}

/** Creates the objects that the measurements read. */
export async function prepare(target: Target): Promise<void> {
  const { client, hosts } = target;
  for (const name of [NAMESPACE, MANY])
    await client.call(hosts[0], 'POST', '/api/v1/namespaces', { metadata: { name } });
  await createMaps(target, NAMESPACE, FEW_OBJECTS);
  await createMaps(target, MANY, MANY_OBJECTS);
  await client.call(hosts[0], 'POST', PODS, podOf('web', target.images.web));
  await client.call(hosts[0], 'POST', SERVICES, {
    metadata: { name: 'web' },
    spec: { type: 'NodePort', selector: { chosen: 'yes' }, ports: [{ port: 80, targetPort: 8080 }] },
  });
}

async function createMaps({ client, hosts }: Target, namespace: string, count: number): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < count) {
      const metadata = { name: `one-of-many-${next++}`, labels: { group: 'many' } };
      await client.call(hosts[0], 'POST', `/api/v1/namespaces/${namespace}/configmaps`, {
        ...{ metadata, data: { text: 'x'.repeat(200) } },
      });
    }
  };
  await Promise.all(Array.from({ length: CREATED_AT_ONCE }, work));
}

/**
 * Measures the time until the first event of a watch that is opened without a resource version, right after a write
 * to another resource.
 */
export async function openWatch({ client, hosts }: Target, round: number): Promise<number> {
  await delay(PROGRESS_MS);
  await client.call(hosts[0], 'POST', MAPS, { metadata: { name: `elsewhere-${round}` } });
  return timed(async () => {
    const path = '/api/v1/namespaces/kube-system/serviceaccounts?watch=true';
    const events = client.watch(hosts[0], path);
    await firstEvent(events, ({ type }) => type === 'ADDED');
    await events.return(undefined);
  });
}

/** Lists 100 objects with a consistent read: without a resource version, the result is as new as etcd. */
export function listFew({ client, hosts }: Target): Promise<number> {
  return timed(() => client.call(hosts[0], 'GET', `${MAPS}?labelSelector=group%3Dmany`));
}

/** Lists 5,000 objects with a consistent read: without a resource version, the result is as new as etcd. */
export function listMany({ client, hosts }: Target): Promise<number> {
  return timed(() => client.call(hosts[0], 'GET', `/api/v1/namespaces/${MANY}/configmaps`));
}

/** Creates, updates and deletes one object. Returns the three times. */
export async function writeObject({ client, hosts }: Target, round: number): Promise<readonly number[]> {
  const path = `${MAPS}/written-${round}`;
  const created = await timed(() =>
    client.call(hosts[0], 'POST', MAPS, { metadata: { name: `written-${round}` }, data: { count: '1' } }),
  );
  const updated = await timed(() => client.call(hosts[0], 'PATCH', path, { data: { count: '2' } }));
  const deleted = await timed(() => client.call(hosts[0], 'DELETE', path));
  return [created, updated, deleted];
}

/**
 * Measures the times from a write through one control plane until a watch at another control plane delivers its
 * event.
 */
export async function deliverWatch({ client, hosts }: Target, rounds: number): Promise<readonly number[]> {
  const name = 'delivered';
  const path = `${MAPS}/${name}`;
  await client.call(hosts[0], 'POST', MAPS, { metadata: { name }, data: { count: '0' } });
  const events = client.watch(hosts[1], `${MAPS}?watch=true&fieldSelector=metadata.name%3D${name}`);
  await firstEvent(events, ({ type }) => type === 'ADDED');
  const times: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    times.push(
      await timed(async () => {
        const seen = firstEvent(events, ({ type }) => type === 'MODIFIED');
        await client.call(hosts[0], 'PATCH', path, { data: { count: String(round) } });
        await seen;
      }),
    );
  }
  await events.return(undefined);
  await client.call(hosts[0], 'DELETE', path);
  return times;
}

/** Measures the time from the creation of a pod until its phase is Running. Then deletes the pod. */
export async function startPod(target: Target, round: number): Promise<number> {
  const { client, hosts, images } = target;
  const name = `started-${round}`;
  const version = (await client.object(hosts[0], 'GET', PODS)).metadata.resourceVersion;
  const query = `fieldSelector=metadata.name%3D${name}&resourceVersion=${version}`;
  const events = client.watch(hosts[0], `${PODS}?watch=true&${query}`);
  const startMs = performance.now();
  await client.call(hosts[0], 'POST', PODS, podOf(name, images.pause));
  await firstEvent(events, ({ object }) => object.status?.phase === 'Running');
  const tookMs = performance.now() - startMs;
  await client.call(hosts[0], 'DELETE', `${PODS}/${name}?gracePeriodSeconds=0`);
  await firstEvent(events, ({ type }) => type === 'DELETED');
  await events.return(undefined);
  return tookMs;
}

/**
 * Measures a rollout of a Deployment of 50 pods: from the new template until all its pods are available and all old
 * pods are gone.
 */
export async function rollDeployment(target: Target, round: number): Promise<number> {
  const { client, hosts, images } = target;
  if (round === 0) {
    const labels = { app: 'rolled' };
    const { spec } = podOf('rolled', images.pause);
    await client.call(hosts[0], 'POST', DEPLOYMENT.replace(/\/rolled$/, ''), {
      metadata: { name: 'rolled' },
      spec: {
        replicas: REPLICAS,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec },
      },
    });
    await untilRolled(target);
  }
  return timed(async () => {
    const annotations = { round: String(round) };
    await client.call(hosts[0], 'PATCH', DEPLOYMENT, { spec: { template: { metadata: { annotations } } } });
    await untilRolled(target);
  });
}

/** Removes the deployment and waits until its pods are gone. */
export async function removeDeployment({ client, hosts }: Target): Promise<void> {
  await client.call(hosts[0], 'DELETE', `${DEPLOYMENT}?propagationPolicy=Foreground`);
  await eventually('the pods of the deployment are gone', async () => {
    const list = await client.call(hosts[0], 'GET', `${PODS}?labelSelector=app%3Drolled&limit=1`);
    return (JSON.parse(list) as { items: readonly unknown[] }).items.length === 0;
  });
}

async function untilRolled({ client, hosts }: Target): Promise<void> {
  await eventually('the deployment is rolled', async () => {
    const { metadata, status = {} } = await client.object(hosts[0], 'GET', DEPLOYMENT);
    const { observedGeneration, updatedReplicas, availableReplicas, replicas } = status;
    const counts = [updatedReplicas, availableReplicas, replicas];
    return observedGeneration === metadata.generation && counts.every((count) => count === REPLICAS);
  });
}

/**
 * Makes a running pod an endpoint of a Service. Measures the time until the Service answers at the NodePort of
 * another node.
 */
export async function reachEndpoint({ client, hosts }: Target): Promise<number> {
  const { spec } = await client.object(hosts[0], 'GET', `${SERVICES}/web`);
  const url = `http://${hosts[2]}:${spec?.ports?.[0]?.nodePort ?? 0}/`;
  const choose = (chosen: string | null) =>
    client.call(hosts[0], 'PATCH', `${PODS}/web`, { metadata: { labels: { chosen } } });
  await eventually('the Service has no endpoint', async () => !(await answers(url)));
  await delay(SYNC_MS);
  const tookMs = await timed(async () => {
    await choose('yes');
    await eventually('the Service answers', () => answers(url), POLL_MS);
  });
  await choose(null);
  return tookMs;
}

/**
 * Measures the time from the loss of the worker until the endpoint on this worker is not ready. The endpoint must
 * exist before. The worker is lost right after it has renewed its lease: otherwise the up to ten seconds since the last
 * renewal would be part of the result.
 */
export async function loseEndpoint(
  { client, hosts }: Target,
  worker: string,
  lose: () => Promise<void>,
): Promise<number> {
  await client.call(hosts[0], 'PATCH', `${PODS}/web`, { metadata: { labels: { chosen: 'yes' } } });
  const slices = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices`;
  const events = client.watch(
    hosts[0],
    `${slices}?watch=true&labelSelector=kubernetes.io%2Fservice-name%3Dweb`,
  );
  const isReady = (ready: boolean) =>
    firstEvent(events, ({ object: { endpoints } }) => {
      const isAny = endpoints?.some(({ conditions }) => conditions?.ready === true) === true;
      return isAny === ready;
    });
  await isReady(true);
  const leases = client.watch(
    hosts[0],
    `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?watch=true&fieldSelector=metadata.name%3D${worker}`,
  );
  await firstEvent(leases, ({ type }) => type === 'MODIFIED');
  await leases.return(undefined);
  const startMs = performance.now();
  await lose();
  await isReady(false);
  const tookMs = performance.now() - startMs;
  await events.return(undefined);
  return tookMs;
}

function answers(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = get(url, { agent: false, timeout: TRY_MS }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    asked.once('timeout', () => asked.destroy());
    asked.once('error', () => resolve(false));
  });
}

/**
 * A pod that every Pod Security level but `restricted` admits. The pod runs on the worker, because all other nodes
 * have a taint.
 */
function podOf(name: string, image: string) {
  return {
    metadata: { name },
    spec: {
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image, imagePullPolicy: 'Never' }],
    },
  };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

async function eventually(what: string, isTrue: () => Promise<boolean>, pauseMs = TRY_MS): Promise<void> {
  const deadlineMs = performance.now() + WAIT_MS;
  while (!(await isTrue())) {
    if (performance.now() > deadlineMs)
      throw new Error(`waiting until ${what}: not within ${WAIT_MS / 1000} s`);
    await delay(pauseMs);
  }
}
