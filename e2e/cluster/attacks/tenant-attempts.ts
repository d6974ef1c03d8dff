import { PAUSE_IMAGE } from '../harness/node-shell.ts';

/** The code that the report prints for a refusal by each component. */
export const CODES = {
  'Pod Security': '403 PodSecurity baseline',
  RBAC: '403 RBAC',
  'the API server': '422 Invalid',
} as const;

/**
 * An attempt of a tenant to use the Kubernetes API, the component that must refuse it, and the expected error
 * text.
 */
export interface ApiAttempt {
  readonly name: string;
  readonly by: keyof typeof CODES;
  readonly want: RegExp;
  /** Arguments of kubectl; `-f -` reads `object`. */
  readonly args: readonly string[];
  readonly object?: unknown;
}

export const TENANT = 'tenant';
const VIOLATES = /violates PodSecurity "baseline:latest"/;
export const FORBIDDEN = /forbidden: User "system:serviceaccount:tenant:dev" cannot /;

/** A minimal pod of the tenant with these additional fields in its spec and its container. */
export function podOf(name: string, spec: object = {}, container: object = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: TENANT },
    spec: {
      terminationGracePeriodSeconds: 0,
      tolerations: [{ operator: 'Exists' }],
      ...spec,
      containers: [{ name: 'main', image: PAUSE_IMAGE, imagePullPolicy: 'IfNotPresent', ...container }],
    },
  };
}

function podAttempt(name: string, spec: object, container: object = {}): ApiAttempt {
  const object = podOf('attack', spec, container);
  return { name, by: 'Pod Security', want: VIOLATES, args: ['create', '-f', '-'], object };
}

function hostPath(path: string): ApiAttempt {
  const volumes = [{ name: 'host', hostPath: { path } }];
  return podAttempt(
    `mount ${path} of the node`,
    { volumes },
    { volumeMounts: [{ name: 'host', mountPath: '/x' }] },
  );
}

function forbidden(name: string, ...args: readonly string[]): ApiAttempt {
  return { name, by: 'RBAC', want: FORBIDDEN, args };
}

export const POD_ATTEMPTS: readonly ApiAttempt[] = [
  ...['/', '/dev/tpmrm0', '/dev', '/sys/kernel/config', '/var/lib/cluster', '/run/cluster'].map(hostPath),
  podAttempt('use the network of the node, and with it every loopback port', { hostNetwork: true }),
  podAttempt('see the processes of the node', { hostPID: true }),
  podAttempt('share memory with the node', { hostIPC: true }),
  podAttempt('be privileged', {}, { securityContext: { privileged: true } }),
  ...['SYS_ADMIN', 'NET_ADMIN', 'NET_RAW', 'SYS_PTRACE', 'SYS_MODULE'].map((capability) =>
    podAttempt(`have CAP_${capability}`, {}, { securityContext: { capabilities: { add: [capability] } } }),
  ),
  podAttempt('do without seccomp', { securityContext: { seccompProfile: { type: 'Unconfined' } } }),
  {
    ...podAttempt('see all of /proc', {}, { securityContext: { procMount: 'Unmasked' } }),
    ...{ by: 'the API server', want: /`hostUsers` must be false/ },
  },
  podAttempt('take a port of the node', {}, { ports: [{ containerPort: 6445, hostPort: 6445 }] }),
  podAttempt('set a sysctl of the node', {
    securityContext: { sysctls: [{ name: 'kernel.msgmax', value: '65536' }] },
  }),
];

export const RBAC_ATTEMPTS: readonly ApiAttempt[] = [
  forbidden(
    'lift Pod Security off the namespace',
    ...['label', 'namespace', TENANT, '--overwrite', 'pod-security.kubernetes.io/enforce=privileged'],
  ),
  forbidden('make a namespace', 'create', 'namespace', 'mine'),
  forbidden('create a pod in kube-system', '-n', 'kube-system', 'run', 'x', `--image=${PAUSE_IMAGE}`),
  forbidden('create a pod in kube-flannel', '-n', 'kube-flannel', 'run', 'x', `--image=${PAUSE_IMAGE}`),
  forbidden('reach the kubelet through the API server', 'get', '--raw', '/api/v1/nodes/n1/proxy/pods'),
  forbidden('read secrets of kube-system', '-n', 'kube-system', 'get', 'secrets'),
  forbidden('become administrator', 'create', 'clusterrolebinding', 'x', '--clusterrole=cluster-admin'),
  {
    ...forbidden('make a volume of a directory of the node', 'create', '-f', '-'),
    object: {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'root' },
      spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], hostPath: { path: '/' } },
    },
  },
];
