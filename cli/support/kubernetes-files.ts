/**
 * What a support bundle says about Kubernetes: for each kind of object the fields on this list and no other. Secrets and
 * ConfigMaps are never read; environment variables, arguments, annotations and volumes of pods are not on the list.
 */

/** The fields to keep: `true` keeps the value with everything in it. */
export type Fields = true | { readonly [name: string]: Fields };

/** A list of objects: its path in the API and the fields of each object. */
export interface ListedKind {
  readonly name: string;
  readonly path: string;
  readonly fields: Fields;
}

const named = { name: true, namespace: true, creationTimestamp: true, labels: true } as const;
const owned = { ...named, ownerReferences: { kind: true, name: true }, deletionTimestamp: true } as const;
const conditions = {
  type: true,
  status: true,
  reason: true,
  message: true,
  lastTransitionTime: true,
} as const;
const containers = { name: true, image: true, resources: true } as const;
const containerStatus: Fields = {
  name: true,
  ready: true,
  started: true,
  restartCount: true,
  image: true,
  state: true,
  lastState: true,
};
const replicas = {
  metadata: owned,
  spec: { replicas: true, strategy: true, updateStrategy: true, selector: true },
  status: true,
} as const;

/** Every kind of object that is listed. */
export const LISTED_KINDS: readonly ListedKind[] = [
  {
    name: 'nodes',
    path: '/api/v1/nodes',
    fields: {
      metadata: named,
      spec: { podCIDR: true, podCIDRs: true, taints: true, unschedulable: true },
      status: {
        addresses: true,
        allocatable: true,
        capacity: true,
        nodeInfo: true,
        conditions,
      },
    },
  },
  {
    name: 'pods',
    path: '/api/v1/pods',
    fields: {
      metadata: owned,
      spec: {
        nodeName: true,
        hostNetwork: true,
        priorityClassName: true,
        restartPolicy: true,
        tolerations: true,
        serviceAccountName: true,
        initContainers: containers,
        containers,
      },
      status: {
        phase: true,
        reason: true,
        message: true,
        podIPs: true,
        startTime: true,
        qosClass: true,
        conditions,
        initContainerStatuses: containerStatus,
        containerStatuses: containerStatus,
      },
    },
  },
  {
    name: 'events',
    path: '/api/v1/events?limit=5000',
    fields: {
      type: true,
      reason: true,
      message: true,
      count: true,
      firstTimestamp: true,
      lastTimestamp: true,
      metadata: { namespace: true, creationTimestamp: true },
      reportingComponent: true,
      involvedObject: { kind: true, namespace: true, name: true, fieldPath: true },
    },
  },
  { name: 'namespaces', path: '/api/v1/namespaces', fields: { metadata: owned, status: true } },
  {
    name: 'services',
    path: '/api/v1/services',
    fields: {
      metadata: named,
      spec: { type: true, clusterIPs: true, ports: true, selector: true, externalTrafficPolicy: true },
      status: true,
    },
  },
  {
    name: 'endpointslices',
    path: '/apis/discovery.k8s.io/v1/endpointslices',
    fields: {
      metadata: owned,
      addressType: true,
      ports: true,
      endpoints: { addresses: true, conditions: true, nodeName: true },
    },
  },
  { name: 'deployments', path: '/apis/apps/v1/deployments', fields: replicas },
  { name: 'daemonsets', path: '/apis/apps/v1/daemonsets', fields: replicas },
  { name: 'statefulsets', path: '/apis/apps/v1/statefulsets', fields: replicas },
  {
    name: 'poddisruptionbudgets',
    path: '/apis/policy/v1/poddisruptionbudgets',
    fields: {
      metadata: named,
      spec: { minAvailable: true, maxUnavailable: true, selector: true },
      status: true,
    },
  },
  {
    name: 'persistentvolumeclaims',
    path: '/api/v1/persistentvolumeclaims',
    fields: {
      metadata: owned,
      spec: { storageClassName: true, accessModes: true, resources: true, volumeName: true },
      status: true,
    },
  },
  {
    name: 'leases',
    path: '/apis/coordination.k8s.io/v1/leases',
    fields: { metadata: { name: true, namespace: true }, spec: true },
  },
  {
    name: 'apiservices',
    path: '/apis/apiregistration.k8s.io/v1/apiservices',
    fields: { metadata: { name: true }, status: { conditions } },
  },
];

/** The named fields of a value; of an array, those of each item. A field of another shape is left out. */
export function pickFields(value: unknown, fields: Fields): unknown {
  if (fields === true) return value;
  if (Array.isArray(value)) return value.map((each) => pickFields(each, fields));
  if (typeof value !== 'object' || value === null) return undefined;
  const from = value as Readonly<Record<string, unknown>>;
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([name]) => Object.hasOwn(from, name))
      .map(([name, inner]) => [name, pickFields(from[name], inner)]),
  );
}
