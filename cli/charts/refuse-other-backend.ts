import { z } from 'zod';
import { NETWORK_CHART, NETWORK_NAMESPACE } from '../../internal/config/index.ts';
import { parseJson } from '../../internal/file/index.ts';
import type { KubeClient } from '../../internal/kube/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { ChartError } from './errors.ts';
import { NETWORK_COMPONENT, type PlannedChart } from './plan-charts.ts';

/** The configuration of flannel, as its chart writes it. A list, because one that is missing is no error. */
const PATH = `/api/v1/namespaces/${NETWORK_NAMESPACE}/configmaps?fieldSelector=metadata.name%3D${NETWORK_CHART}`;
const DEFAULT_BACKEND = 'vxlan';

const listShape = z.object({
  items: z.array(z.object({ data: z.record(z.string(), z.string()).default({}) })),
});
const networkShape = z.object({ Backend: z.object({ Type: z.string() }) });
const valuesShape = z.object({ backend: z.object({ type: z.string() }).prefault({ type: DEFAULT_BACKEND }) });

/**
 * Refuses a plan that would change how nodes exchange packets of pods: they would change one by one, and those that have changed
 * do not reach the others.
 * @throws ChartError `charts-backend-fixed`, KubeError
 */
export async function refuseOtherBackend(
  client: Pick<KubeClient, 'getJson'>,
  plan: readonly PlannedChart[],
  signal: AbortSignal,
): Promise<void> {
  // A chart of the operator may have the same name. Its values mean something else.
  const chart = plan.find(({ source }) => source.kind === 'bundle' && source.component === NETWORK_COMPONENT);
  if (chart === undefined) return;
  const wanted = valuesShape.parse(chart.values).backend.type;
  const { items } = listShape.parse(await client.getJson(PATH, signal));
  for (const { data } of items) {
    const found = networkShape.safeParse(parseJson(data['net-conf.json'] ?? '')).data?.Backend.Type;
    if (found === undefined || found === wanted) continue;
    throw new ChartError(
      'charts-backend-fixed',
      `cannot change networking.backend to ${wanted}: the network of pods runs with ${printable(found)}`,
      { details: { found, wanted } },
    );
  }
}
