import { createHash } from 'node:crypto';
import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS } from '../../../internal/bundle/index.ts';
import { findCoded, type ExitName } from '../../../internal/errors/index.ts';
import { printable } from '../../../internal/printable/index.ts';
import { records, SETTINGS_KEY } from '../../../internal/records/index.ts';
import { VERSION } from '../../../internal/versions/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { formatFields, formatTable } from '../../host/index.ts';
import { callCurator } from '../curator/call-curator.ts';
import { readCaller } from '../curator/caller.ts';
import { nodeViewsFrom, type NodeView } from './node-view.ts';
import { readPart } from './read-part.ts';
import type { Part } from './status-view.ts';

/** Error codes for a directory without a workspace, and for a workspace without a cluster. */
const NO_CLUSTER: readonly string[] = ['workspace-missing', 'cluster-not-initialized'];

/** The versions that a cluster runs. */
interface ClusterVersions {
  readonly name: string;
  readonly clusterId: string;
  /** The version that joining machines get; "" from curators of older releases. */
  readonly kubernetesVersion: string;
  /** SHA-256 of the manifest of its bundle, hex; "" from curators of older releases. */
  readonly manifestSha256: string;
  readonly nodes: readonly {
    readonly name: string;
    readonly agentVersion: string;
    readonly kubernetesVersion: string;
    /** What is wrong with the versions of this node; empty if nothing is. */
    readonly note: string;
  }[];
}

/**
 * `cluster version`: the versions of this program, of every agent, of Kubernetes and of the bundle, and which versions of
 * Kubernetes this release supports. Works without a cluster.
 * @returns `unreachable` when the workspace has a cluster that does not respond
 */
export async function runVersion(context: CommandContext): Promise<ExitName> {
  const { host, paths } = context;
  const client = {
    version: VERSION,
    kubernetesVersions: KUBERNETES_VERSIONS,
    defaultKubernetesVersion: DEFAULT_KUBERNETES_VERSION,
  };
  const cluster = (await hasCluster(context))
    ? await readPart(context, () => readVersions(context))
    : undefined;
  host.result({ client, workspace: paths.workspace, cluster }, () =>
    [
      formatFields([
        ['client', VERSION],
        [
          'supports',
          `Kubernetes ${KUBERNETES_VERSIONS.join(', ')}; new clusters get ${DEFAULT_KUBERNETES_VERSION}`,
        ],
        ['workspace', printable(paths.workspace)],
        ...(cluster?.ok === true
          ? fieldsOf(cluster.value)
          : [['cluster', describeFailure(cluster)] as const]),
      ]),
      ...(cluster?.ok === true ? ['', renderVersions(cluster.value)] : []),
    ].join('\n'),
  );
  return cluster?.ok === false ? 'unreachable' : 'ok';
}

function describeFailure(cluster: Part<ClusterVersions> | undefined): string {
  if (cluster === undefined || cluster.ok) return '<none>';
  const isQuorumLost = cluster.codes.includes('cluster-quorum-lost');
  return isQuorumLost ? `${cluster.error}; see \`cluster help recover\`` : cluster.error;
}

async function hasCluster(context: CommandContext): Promise<boolean> {
  try {
    await readCaller(context);
    return true;
  } catch (error) {
    if (NO_CLUSTER.includes(findCoded(error)?.code ?? '')) return false;
    throw error;
  }
}

async function readVersions(context: CommandContext): Promise<ClusterVersions> {
  const caller = await readCaller(context);
  return callCurator(context, async ({ curator, operatorApi }) => {
    const [{ nodes }, { clusterName }, { settings }] = await Promise.all([
      curator.listNodes({}),
      curator.getClusterInfo({}),
      operatorApi.listDocuments({}),
    ]);
    const given = settings.length === 0 ? undefined : records.settings.decode(SETTINGS_KEY, settings);
    return {
      name: printable(clusterName),
      clusterId: caller.clusterId,
      kubernetesVersion: printable(given?.kubernetesVersion ?? ''),
      manifestSha256:
        given === undefined ? '' : createHash('sha256').update(given.bundleManifest).digest('hex'),
      nodes: nodeViewsFrom(nodes).map(versionsOf),
    };
  });
}

function versionsOf({ name, agentVersion, kubernetesVersion }: NodeView) {
  const note = [...noteOfAgent(agentVersion), ...noteOfKubernetes(kubernetesVersion)].join('; ');
  return { name, agentVersion, kubernetesVersion, note };
}

/** Agent and CLI may differ by one minor version. */
function noteOfAgent(version: string): readonly string[] {
  const [agent, own] = [minorOf(version), minorOf(VERSION)];
  if (agent === undefined || own === undefined) return [];
  const isNear = agent.major === own.major && Math.abs(agent.minor - own.minor) <= 1;
  return isNear ? [] : [`agent ${version} and client ${VERSION} differ by more than one minor version`];
}

function noteOfKubernetes(version: string): readonly string[] {
  const minor = minorOf(version);
  if (minor === undefined || KUBERNETES_VERSIONS.includes(version)) return [];
  const newest = KUBERNETES_VERSIONS.find((each) => minorOf(each)?.minor === minor.minor);
  return [
    newest === undefined
      ? `Kubernetes ${version} is outside the window of supported versions`
      : `Kubernetes ${newest} is the patch release that this program supports`,
  ];
}

function minorOf(version: string): { readonly major: number; readonly minor: number } | undefined {
  const match = /^v?(\d+)\.(\d+)\./.exec(version);
  return match === null ? undefined : { major: Number(match[1]), minor: Number(match[2]) };
}

function fieldsOf({ name, clusterId, kubernetesVersion, manifestSha256 }: ClusterVersions) {
  return [
    ['cluster', `${name}  ${clusterId}`],
    ...(kubernetesVersion === '' ? [] : [['kubernetes', kubernetesVersion] as const]),
    ...(manifestSha256 === '' ? [] : [['bundle', `manifest sha256:${manifestSha256}`] as const]),
  ] as const;
}

function renderVersions({ nodes }: ClusterVersions): string {
  const rows = nodes.map(({ name, agentVersion, kubernetesVersion, note }) => [
    name,
    agentVersion || '<none>',
    kubernetesVersion || '<none>',
    note,
  ]);
  return formatTable(['NODE', 'AGENT', 'KUBERNETES', 'NOTE'], rows);
}
