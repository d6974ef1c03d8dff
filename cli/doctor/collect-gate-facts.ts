import { withTimeout } from '../../internal/cleanup/index.ts';
import type { ClusterFacts } from '../../internal/doctor/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import type { CommandContext } from '../app/command.ts';
import { callCurator, readPart } from '../cluster/index.ts';
import { askCurators, planesFrom } from './ask-curators.ts';
import { askPlanes } from './ask-kubernetes.ts';
import { measureOnce } from './ask-metrics.ts';
import { plain, readNodeRecords, type CuratorAnswer } from './read-records.ts';

/** Time for each part: a gate must not make the command of a damaged cluster slow. */
const PART_MS = 10_000;
const NOT_ASKED = { ok: false as const, error: 'not asked', codes: [] };

type Records = Pick<CuratorAnswer, 'info' | 'records'>;
type PlaneFacts = Pick<ClusterFacts, 'curators' | 'metrics' | 'clocks' | 'kubelets'>;

/**
 * The facts that gates judge: the records, and what the control planes that respond tell about their clocks, their etcd members
 * and their disks. A part that cannot be read in time is left out: a gate refuses only what it knows.
 */
export async function collectGateFacts(context: CommandContext): Promise<ClusterFacts> {
  const answer = plain(await readPart(context, () => callCurator(context, readNodeRecords)));
  const planes = answer.ok
    ? await askServing(context, answer.value)
    : { curators: [], metrics: [], clocks: [], kubelets: [] };
  return {
    ...{ version: 1, takenMs: context.ports.clock.nowMs(), cliVersion: VERSION },
    ...{ clusterId: '', clusterName: '' },
    records: answer.ok ? { ok: true, value: answer.value.records } : answer,
    ...{ keys: NOT_ASKED, joins: NOT_ASKED, documents: NOT_ASKED, collateral: NOT_ASKED },
    ...{ kubernetes: NOT_ASKED, apiServers: [], evidence: [] },
    ...planes,
  };
}

/** Asks the control planes that have sent heartbeats. */
async function askServing(context: CommandContext, { info, records }: Records): Promise<PlaneFacts> {
  const healthy = new Set(records.nodes.filter(({ health }) => health === 'healthy').map(({ name }) => name));
  const serving = planesFrom(info).filter(({ node }) => healthy.has(node));
  if (serving.length === 0) return { curators: [], metrics: [], clocks: [], kubelets: [] };
  const nodes = records.nodes.filter(({ isControlPlane, name }) => isControlPlane && healthy.has(name));
  const names = nodes.map(({ name }) => name);
  const [curators, metrics, { clocks, kubelets }] = await Promise.all([
    bounded(context, [], (each) => askCurators(each, serving)),
    bounded(context, [], (each) =>
      measureOnce(each, { found: { records: { nodes } }, serving, nodes: names }),
    ),
    bounded(context, { clocks: [], kubelets: [] }, (each) => askPlanes(each, serving)),
  ]);
  return { curators, metrics, clocks, kubelets };
}

/** What `ask` returns in time, or else `none`. */
async function bounded<T>(
  context: CommandContext,
  none: T,
  ask: (context: CommandContext) => Promise<T>,
): Promise<T> {
  const { signal, ports } = context;
  const limit = { what: 'asking control planes', ms: PART_MS, clock: ports.clock, signal };
  const answer = await readPart(context, () =>
    withTimeout(limit, (child) => ask({ ...context, signal: child })),
  );
  return answer.ok ? answer.value : none;
}
