import {
  LOCAL_API_ENDPOINT,
  NETWORK_CHART,
  NETWORK_NAMESPACE,
  subnetsFrom,
  type ClusterConfig,
} from '../../internal/config/index.ts';
import { type HostPort, splitEndpoint } from '../../internal/endpoint/index.ts';
import { ChartError } from './errors.ts';

/** The chart of the pod network in the bundle. */
export const NETWORK_COMPONENT = 'flannel-chart';
const NETWORK_TIMEOUT_SECONDS = 300;

/** Which charts to install. */
export type ChartSelection =
  { readonly kind: 'all' } | { readonly kind: 'none' } | { readonly kind: 'only'; readonly name: string };

/** Where to get a chart from. */
export type ChartSource =
  | { readonly kind: 'bundle'; readonly component: string }
  | { readonly kind: 'path'; readonly path: string }
  | {
      readonly kind: 'oci';
      readonly reference: string;
      readonly version: string;
      /** Use plain HTTP instead of TLS. */
      readonly plainHttp: boolean;
    }
  | {
      readonly kind: 'repository';
      readonly url: string;
      readonly chart: string;
      readonly version: string;
    };

/** A chart with all inputs of its installation. */
export interface PlannedChart {
  readonly name: string;
  readonly namespace: string;
  readonly source: ChartSource;
  readonly values: Readonly<Record<string, unknown>>;
  readonly needs: readonly string[];
  readonly wait: boolean;
  readonly timeoutSeconds: number;
}

/**
 * The selected charts in order of their dependencies, the pod network first. Pure: called before anything changes.
 * @throws ChartError `charts-cycle` with the path, `charts-unknown`
 */
export function planCharts(config: ClusterConfig, selection: ChartSelection): readonly PlannedChart[] {
  const hasNetwork = config.networking.plugin === 'flannel';
  const charts = [
    ...(hasNetwork ? [networkChart(config)] : []),
    ...config.charts.map((chart) => plannedFrom(chart, hasNetwork)),
  ];
  const ordered = orderByNeeds(charts);
  switch (selection.kind) {
    case 'none':
      return [];
    case 'all':
      return ordered;
    case 'only': {
      const wanted = withNeeds(selection.name, charts);
      return ordered.filter(({ name }) => wanted.has(name));
    }
  }
}

function networkChart(config: ClusterConfig): PlannedChart {
  return {
    name: NETWORK_CHART,
    namespace: NETWORK_NAMESPACE,
    source: { kind: 'bundle', component: NETWORK_COMPONENT },
    values: { ...podRanges(config), ...backendOf(config), apiServer: apiServerOf(config) },
    needs: [],
    wait: true,
    timeoutSeconds: NETWORK_TIMEOUT_SECONDS,
  };
}

/** The pod networks by family. A cluster without IPv6 has the same values as in earlier releases. */
function podRanges({ networking }: ClusterConfig): Readonly<Record<string, string>> {
  const named = (subnetsFrom(networking.podSubnet) ?? []).map(
    ({ family, text }) => [family === 'IPv4' ? 'podCIDR' : 'podCIDRv6', text] as const,
  );
  return Object.fromEntries(named);
}

/** How packets get from node to node. A cluster with VXLAN has the same values as in earlier releases. */
function backendOf({ networking: { backend } }: ClusterConfig): Readonly<Record<string, object>> {
  return backend === 'vxlan' ? {} : { backend: { type: backend } };
}

/**
 * The endpoint at which nodes reach the API server. The network chart cannot use the service address, which
 * works only after kube-proxy runs.
 */
function apiServerOf({ apiServer: { endpoint } }: ClusterConfig): HostPort {
  return endpoint === undefined ? LOCAL_API_ENDPOINT : splitEndpoint(endpoint);
}

function plannedFrom(chart: ClusterConfig['charts'][number], hasNetwork: boolean): PlannedChart {
  const { name, namespace, values, needs, wait, timeoutSeconds } = chart;
  return {
    name,
    namespace,
    source: sourceFrom(chart),
    values,
    needs: hasNetwork ? [NETWORK_CHART, ...needs] : needs,
    wait,
    timeoutSeconds,
  };
}

/** Where the configuration says that a chart comes from. */
export function sourceFrom(one: ClusterConfig['charts'][number]): ChartSource {
  const { chart, repository, version = '', plainHttp } = one;
  if (repository !== undefined) return { kind: 'repository', url: repository, chart, version };
  if (chart.startsWith('oci://')) return { kind: 'oci', reference: chart, version, plainHttp };
  if (chart.startsWith('bundle:')) return { kind: 'bundle', component: chart.slice('bundle:'.length) };
  return { kind: 'path', path: chart };
}

/** Depth first, in the order of cluster.yaml. */
function orderByNeeds(charts: readonly PlannedChart[]): readonly PlannedChart[] {
  const byName = new Map(charts.map((chart) => [chart.name, chart]));
  const ordered = new Set<PlannedChart>();
  const visit = (chart: PlannedChart, path: readonly string[]): void => {
    if (ordered.has(chart)) return;
    const start = path.indexOf(chart.name);
    if (start >= 0) {
      const cycle = [...path.slice(start), chart.name].join(' → ');
      throw new ChartError('charts-cycle', `charts depend on each other: ${cycle}`, {
        details: { circle: cycle },
      });
    }
    for (const need of chart.needs) {
      const needed = byName.get(need);
      if (needed !== undefined) visit(needed, [...path, chart.name]);
    }
    ordered.add(chart);
  };
  for (const chart of charts) visit(chart, []);
  return [...ordered];
}

function withNeeds(name: string, charts: readonly PlannedChart[]): ReadonlySet<string> {
  const known = charts.find((chart) => chart.name === name);
  if (known === undefined) {
    const names = charts.map((chart) => chart.name).join(', ');
    throw new ChartError('charts-unknown', `chart ${JSON.stringify(name)} not found; available: ${names}`);
  }
  const wanted = new Set([name]);
  for (const need of known.needs) for (const each of withNeeds(need, charts)) wanted.add(each);
  return wanted;
}
