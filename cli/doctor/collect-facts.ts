import type { ClusterFacts } from '../../internal/doctor/index.ts';
import { hostOf } from '../../internal/endpoint/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { CommandContext } from '../app/command.ts';
import {
  callCurator,
  readCaller,
  readCredentialExpiry,
  readKnownCurators,
  readLastNodes,
  readPart,
  type Caller,
} from '../cluster/index.ts';
import { layoutOf, StateFile } from '../workspace/index.ts';
import { askCurators, askJoinServices, planesFrom, type ControlPlane } from './ask-curators.ts';
import { askEvidence } from './ask-evidence.ts';
import { askHostNames, hostFrom } from './ask-host-names.ts';
import { askKubernetes } from './ask-kubernetes.ts';
import { isWanted, measure, type CollectOptions } from './ask-metrics.ts';
import { plain, readRecords, type CuratorAnswer } from './read-records.ts';

/**
 * Collects the facts of the cluster of the workspace. A part that cannot be read has its error instead; only a workspace
 * without a cluster ends the collection.
 * @throws ClusterError `cluster-not-initialized`, `cluster-identity-not-granted`
 */
export async function collectFacts(
  context: CommandContext,
  { nodes, windowMs }: CollectOptions,
): Promise<ClusterFacts> {
  const caller = await readCaller(context);
  const answer = plain(
    await readPart(context, () => callCurator(context, (clients) => readRecords(context, clients))),
  );
  const found = answer.ok ? answer.value : undefined;
  const controlPlanes = await controlPlanesOf(context, caller, found);
  const curators = await askCurators(context, controlPlanes);
  const serving = controlPlanes.filter((_, index) => curators[index]?.answer.ok);
  const [joinServices, kubernetes, metrics, evidence] = await Promise.all([
    askJoinServices(controlPlanes),
    askKubernetes(context, { controlPlanes, nodes }),
    measure(context, { found, serving, nodes, windowMs }),
    // While `measure` waits between its two readings, so that a small cluster takes no longer.
    askEvidence(context, {
      nodes: (found?.nodes ?? []).filter(({ name }) => isWanted(nodes, printable(name))),
      only: serving.map(({ endpoint }) => endpoint),
    }),
  ]);
  const { certificateMs, kubeconfigMs } = await readCredentialExpiry(context);
  const charts = await installedCharts(context, caller);
  const addresses = [...caller.curatorEndpoints, ...controlPlanes.map(({ endpoint }) => endpoint)];
  const { kubeconfig } = kubernetes;
  const named = kubeconfig === undefined ? addresses : [kubeconfig.server, ...addresses];
  const hostNames = await askHostNames(context, named.map(hostFrom));
  return {
    version: 1,
    takenMs: context.ports.clock.nowMs(),
    cliVersion: VERSION,
    clusterId: caller.clusterId,
    clusterName: printable(found?.info.clusterName ?? (await caller.readName())),
    credentials: { certificateMs, ...(kubeconfigMs !== undefined && { kubeconfigMs }) },
    ...recordParts(answer),
    ...{ curators, joinServices, ...kubernetes },
    ...{ metrics, evidence, hostNames },
    ...(charts && { charts }),
  };
}

type RecordParts = Pick<ClusterFacts, 'records' | 'keys' | 'joins' | 'documents' | 'collateral' | 'backups'>;

function recordParts(answer: ReturnType<typeof plain<CuratorAnswer>>): RecordParts {
  if (!answer.ok)
    return {
      records: answer,
      keys: answer,
      joins: answer,
      documents: answer,
      collateral: answer,
      backups: answer,
    };
  const { records, keys, joins, documents, collateral, backups } = answer.value;
  return {
    records: { ok: true, value: records },
    keys,
    joins,
    documents,
    collateral,
    ...(backups && { backups }),
  };
}

/** The control planes that a curator lists now; if no curator responds, those that it listed last. */
async function controlPlanesOf(
  context: CommandContext,
  caller: Caller,
  found: CuratorAnswer | undefined,
): Promise<readonly ControlPlane[]> {
  if (found !== undefined) return planesFrom(found.info);
  const known = await readKnownCurators(context.ports.files, caller.curatorsPath);
  const names = new Map(
    (await readLastNodes(context, caller))?.nodes.map(({ address, name }) => [address, name]),
  );
  return [...new Set([...known, ...caller.curatorEndpoints])].map((endpoint) => ({
    node: names.get(hostOf(endpoint)) ?? endpoint,
    endpoint,
  }));
}

/** Charts that were installed from this workspace; undefined for an operator, whose workspace installs none. */
async function installedCharts(
  { paths, ports }: CommandContext,
  { kind }: Caller,
): Promise<string[] | undefined> {
  if (kind === 'operator') return undefined;
  const { value } = await StateFile.read(ports.files, layoutOf(paths.workspace));
  return Object.keys(value.charts);
}
