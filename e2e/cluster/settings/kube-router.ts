import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { stringify } from 'yaml';
import {
  accountsLayer,
  unpackPackages,
  writeImageArchive,
  type TarEntry,
} from '../../../internal/bundlebuild/index.ts';
import { createBuildContext } from '../../build-context.ts';
import { directoryLayer } from '../../conformance/directory-layer.ts';
import { MERGED_LINKS, mergeUsr } from '../../conformance/image-recipes.ts';
import type { Harness } from '../../machines/harness.ts';
import { runGo } from '../../run-go.ts';

const MODULE = 'github.com/cloudnativelabs/kube-router/v2/cmd/kube-router';
const SOURCE = resolve(import.meta.dirname, '../../kube-router');
/** The packages that upstream's image contains besides the program (see its Dockerfile). */
const PACKAGES = ['conntrack', 'dash', 'ipset', 'iproute2', 'iptables'];
/** Repository and tag of the image in a mirror of docker.io. */
export const IMAGE = 'cloudnativelabs/kube-router:story';

/** Builds the image of kube-router from its Go module and Debian packages. Returns the directory of its OCI layout. */
export async function buildKubeRouter(bench: Harness): Promise<string> {
  const { commands } = bench.machines;
  const { signal } = bench;
  const program = join(bench.directory, 'kube-router');
  await runGo(['build', '-trimpath', '-ldflags=-s -w', '-o', program, MODULE], { cwd: SOURCE, signal });
  const context = createBuildContext({ signal, say: () => undefined });
  const { root } = await unpackPackages(context, join(bench.directory, 'packages'), PACKAGES);
  const content = () => context.ports.streams.readChunks(program, { signal });
  const { sizeBytes = 0 } = (await context.ports.files.stat(program)) ?? {};
  const own: readonly TarEntry[] = [
    { type: 'file', path: 'usr/local/bin/kube-router', mode: 0o755, sizeBytes, content },
    { type: 'symlink', path: 'usr/bin/sh', target: 'dash' },
    ...iptablesLinks(),
  ];
  const layers = [[...accountsLayer(), ...MERGED_LINKS], mergeUsr(await directoryLayer(context, root)), own];
  const { architecture } = context.machine;
  const archive = writeImageArchive({
    ...{ reference: `docker.io/${IMAGE}`, architecture, layers },
    entrypoint: '/usr/local/bin/kube-router',
  });
  const [layout, file] = [
    join(bench.directory, 'kube-router-image'),
    join(bench.directory, 'kube-router.tar'),
  ];
  await writeFile(file, archive);
  await mkdir(layout);
  await commands.run({ argv: ['tar', '-xf', file, '-C', layout], timeoutMs: 60_000, signal });
  return layout;
}

/** The names that update-alternatives sets when the package is installed. */
function iptablesLinks(): readonly TarEntry[] {
  return ['iptables', 'ip6tables'].flatMap((name) =>
    ['', '-save', '-restore'].map((suffix) => ({
      type: 'symlink' as const,
      path: `usr/sbin/${name}${suffix}`,
      target: 'xtables-nft-multi',
    })),
  );
}

/**
 * Writes a chart of kube-router as its documentation for kubeadm has it: routes between nodes of one network, without tunnels, and
 * network policies; kube-proxy stays. Returns its directory.
 */
export async function writeKubeRouterChart(directory: string): Promise<string> {
  const chart = join(directory, 'kube-router-chart');
  await mkdir(join(chart, 'templates'), { recursive: true });
  await chmod(chart, 0o755);
  await writeFile(
    join(chart, 'Chart.yaml'),
    stringify({ apiVersion: 'v2', name: 'kube-router', version: '1.0.0' }),
  );
  const text = objects()
    .map((each) => stringify(each))
    .join('---\n');
  await writeFile(join(chart, 'templates/kube-router.yaml'), text);
  return chart;
}

function objects(): readonly object[] {
  const name = 'kube-router';
  const metadata = { name, namespace: name };
  const read = ['get', 'list', 'watch'];
  const labels = { app: name };
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name },
      rules: [
        { apiGroups: [''], resources: ['namespaces', 'pods', 'services', 'nodes', 'endpoints'], verbs: read },
        { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], verbs: read },
        { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: read },
        {
          apiGroups: ['coordination.k8s.io'],
          resources: ['leases'],
          verbs: [...read, 'create', 'update', 'patch'],
        },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'cni.conflist': `${JSON.stringify(CNI)}\n` } },
    {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      metadata,
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: podSpec() } },
    },
  ];
}

/** The CNI configuration. kube-router adds the node's pod CIDR to this file. */
const CNI = {
  cniVersion: '0.3.0',
  name: 'pods',
  plugins: [
    {
      type: 'bridge',
      name: 'kubernetes',
      bridge: 'kube-bridge',
      isDefaultGateway: true,
      ipam: { type: 'host-local' },
    },
    { type: 'portmap', capabilities: { snat: true, portMappings: true } },
  ],
};

function podSpec(): object {
  const cni = '/etc/cni/net.d/10-kube-router.conflist';
  return {
    hostNetwork: true,
    serviceAccountName: 'kube-router',
    priorityClassName: 'system-node-critical',
    tolerations: [{ operator: 'Exists' }],
    containers: [
      {
        name: 'kube-router',
        image: IMAGE,
        command: ['sh', '-c'],
        args: [
          [
            // Uses only shell built-ins, because the image has no cp or cat.
            `IFS= read -r line < /config/cni.conflist`,
            `{ [ -e ${cni} ] || echo "$line" > ${cni}; }`,
            `exec kube-router --run-router --run-firewall --run-service-proxy=false --enable-overlay=false`,
          ].join(' && '),
        ],
        env: [
          { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
          { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
          { name: 'KUBE_ROUTER_CNI_CONF_FILE', value: cni },
          // How a node reaches the API server before kube-proxy runs.
          { name: 'KUBERNETES_SERVICE_HOST', value: '127.0.0.1' },
          { name: 'KUBERNETES_SERVICE_PORT', value: '6445' },
        ],
        securityContext: { privileged: true },
        readinessProbe: { httpGet: { host: '127.0.0.1', path: '/healthz', port: 20_244 }, periodSeconds: 2 },
        volumeMounts: [
          { name: 'cni', mountPath: '/etc/cni/net.d' },
          { name: 'config', mountPath: '/config' },
          { name: 'lock', mountPath: '/run/xtables.lock' },
        ],
      },
    ],
    volumes: [
      { name: 'cni', hostPath: { path: '/etc/cni/net.d', type: 'DirectoryOrCreate' } },
      { name: 'config', configMap: { name: 'kube-router' } },
      { name: 'lock', hostPath: { path: '/run/xtables.lock', type: 'FileOrCreate' } },
    ],
  };
}
